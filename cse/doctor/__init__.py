"""What would stop a sweep here or on a cluster, with a fix for each finding."""

__all__ = ()
