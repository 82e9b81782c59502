"""One folder a question. A folder's `QUESTION` is all that registers it; see `attnlab.results.question`."""
