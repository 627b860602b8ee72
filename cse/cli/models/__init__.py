"""Commands about one model."""

__all__ = ()
