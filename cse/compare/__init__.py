"""Two models side by side, and a gate for candidates: `cse compare` and `cse gate`."""

__all__ = ()
