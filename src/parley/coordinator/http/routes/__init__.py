"""The handlers of the API, a file a subject. `http/operations.py` lists them; the name of one is its operation id."""
