"""`cse doctor`: finds what would stop a sweep on this machine or on a cluster, with a fix for each finding."""

__all__ = ()
