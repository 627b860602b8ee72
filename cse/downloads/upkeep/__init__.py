"""The command."""

__all__ = ()
