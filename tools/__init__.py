"""What makes evidence and is no test: long runs, mutants, chaos, and the commands that rewrite generated pages."""
