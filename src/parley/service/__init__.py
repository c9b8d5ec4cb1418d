"""What `parley serve` serves: the coordinator's API, forecasts, which the coordinator must not make, and the pages."""
