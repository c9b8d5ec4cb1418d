"""Features that the rest can do without, a folder each. Only `parley.hooks` looks in here."""
