"""What tests of an installation share: those of this repository, and `parley qualify` where it is installed."""
