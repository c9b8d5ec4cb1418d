"""The web pages of the coordinator, on the operations of its API alone: a page shows what its reader may read."""
