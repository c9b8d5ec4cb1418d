"""What tests of an installation share: those of this repository, `parley qualify`, and suites for other packages."""
