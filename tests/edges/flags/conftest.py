"""A site's application without a socket, as the tests of sites have it."""

from tests.site.conftest import line, site

__all__ = ["line", "site"]
