"""Who asks, and who may: tokens with their roles, and sessions."""
