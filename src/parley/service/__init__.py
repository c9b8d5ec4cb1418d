"""The service of `parley serve`: the coordinator's API, forecasts beside it, and the pages."""
