"""Read studies for people and pages: lists, status, findings."""
