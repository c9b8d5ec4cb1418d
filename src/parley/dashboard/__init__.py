"""The web pages of the coordinator, on its JSON API alone: a page can show no more than its reader's token may read."""
