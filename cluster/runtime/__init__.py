"""Starts and joins Ray clusters, checks nodes, GPUs and storage, and identifies the version of the code."""

__all__ = [
    "background",
    "cards",
    "code_version",
    "head_watch",
    "join",
    "options",
    "processes",
    "ray_internals",
    "resources",
    "security",
    "start",
    "storage",
]
