"""Development tools that are not tests: long measurements, mutants, chaos, and rewriting generated pages."""
