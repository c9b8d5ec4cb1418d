"""Build the API's answers about studies: lists, status, findings."""
