"""The live coordinator: an HTTP service over one database. Nothing acknowledged is lost, nothing is done twice."""
