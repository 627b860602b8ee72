"""Commands of this side that plan and train."""

__all__ = ()
