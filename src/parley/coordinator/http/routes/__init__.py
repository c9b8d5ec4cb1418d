"""The handlers of the API, one file per subject. A handler's name is its operation's id (`http/operations.py`)."""
