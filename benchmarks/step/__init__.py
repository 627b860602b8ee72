"""One training step against named peers."""
