"""Authentication and authorization: tokens with their roles, and sessions."""
