"""The commands."""

__all__ = ()
