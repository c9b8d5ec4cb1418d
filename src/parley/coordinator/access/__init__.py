"""Who asks, and what for: tokens, sessions, and the table of rights."""
