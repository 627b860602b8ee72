"""Commands about one model."""
