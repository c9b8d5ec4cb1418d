"""Code that all of Parley's HTTP services share: connections and their limits, and the description of an API."""
