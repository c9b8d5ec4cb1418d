"""The live coordinator: an HTTP service over one database that loses no acknowledged change and makes none twice."""
