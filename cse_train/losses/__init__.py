"""Loss functions; they know torch alone."""
