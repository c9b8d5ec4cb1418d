"""Optional features, one folder each. Other rooms reach them only through `parley.hooks`."""
