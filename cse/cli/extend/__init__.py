"""Commands for methods and spaces of a user's own."""

__all__ = ()
