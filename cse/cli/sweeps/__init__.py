"""Commands that plan and train."""

__all__ = ()
