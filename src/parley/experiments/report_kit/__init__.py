"""Shared by all reports: tables, pages and charts."""
