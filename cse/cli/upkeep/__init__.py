"""Commands about the machine and the disk."""
