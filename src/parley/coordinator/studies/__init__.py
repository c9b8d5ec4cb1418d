"""What is done to a study, each operation a function of one transaction. Routes call these; so do tests."""
