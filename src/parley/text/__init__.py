"""Numbers, statuses and messages as text, in the words of an audience and in the reader's language."""
