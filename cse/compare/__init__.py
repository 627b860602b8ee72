"""`cse compare` and `cse gate`: two models side by side, and a verdict on a candidate model against a reference."""

__all__ = ()
