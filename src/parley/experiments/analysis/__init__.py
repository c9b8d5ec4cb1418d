"""A finished table of fixed size: what it says of every agent's arms, and what a sequential study would have needed."""
