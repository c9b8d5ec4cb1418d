"""The pages, a file a subject. A page asks the JSON API and renders what it got; it decides nothing."""
