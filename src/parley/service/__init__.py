"""The service of `parley serve`: the coordinator's API, the forecasts, and the pages."""
