"""Starts and joins Ray clusters, checks nodes, GPUs and storage, and identifies the version of the code."""

__all__ = [
    "background",
    "code_version",
    "join",
    "options",
    "ray_internals",
    "resources",
    "start",
    "storage",
]
