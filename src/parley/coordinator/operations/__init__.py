"""What the coordinator does, each operation as a function of one transaction. Routes call these; so do tests."""
