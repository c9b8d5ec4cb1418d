"""Optional features, one folder each. Other packages reach them only through `parley.hooks`."""
