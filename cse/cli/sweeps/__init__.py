"""Commands that plan and train."""

__all__ = ["run"]
