"""`python -m attnlab` is the same as `attnlab`."""

from attnlab.cli.app import main

if __name__ == "__main__":
    main()
