"""What every HTTP service here shares: connections and their limits, and the description of an API."""
