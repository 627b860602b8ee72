"""Commands about the machine and the disk."""

__all__ = ()
