"""One folder a question: `__init__.py` lists it as a command, `question.py` declares all else of it."""
