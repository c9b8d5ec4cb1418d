"""The service at a site: an API and a page for people who come one by one. Needs the extra `site`."""
