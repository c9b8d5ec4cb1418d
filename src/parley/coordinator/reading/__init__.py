"""What people and pages read about a study, and how they learn that it changed."""
