"""What all reports share: tables, pages and charts."""
