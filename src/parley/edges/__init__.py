"""Optional features, one folder each. Only `parley.hooks` looks in here."""
