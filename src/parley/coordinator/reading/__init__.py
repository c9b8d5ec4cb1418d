"""What people and pages read about a study."""
