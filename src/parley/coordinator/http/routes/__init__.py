"""The handlers of the API, one file per subject; `http/operations.py` lists them by name, which is the operation id."""
