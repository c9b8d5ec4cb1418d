"""The HTTP API, a file a subject. The name of a route's function is its operation id and its key in `rights.ACCESS`."""
