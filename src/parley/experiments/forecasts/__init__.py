"""What a study will cost before it is launched, and what is likely left of a running one."""
