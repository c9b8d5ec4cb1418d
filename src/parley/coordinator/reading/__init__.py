"""What people and pages read of a study, and how they hear that it changed."""
