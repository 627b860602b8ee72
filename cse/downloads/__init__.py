"""`cse data`: downloads public data sets from their publishers into the folder that `--data` names."""

__all__ = ()
