"""The coordinator's web pages, built only on its API: a page shows what its reader may read."""
