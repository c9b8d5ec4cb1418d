"""Building blocks of all reports: tables, pages and charts."""
