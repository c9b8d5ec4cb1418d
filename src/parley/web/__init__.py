"""Code that all of Parley's HTTP services share: limits on connections, checks of requests, descriptions of APIs."""
