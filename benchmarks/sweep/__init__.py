"""A whole sweep against the released recipe."""
