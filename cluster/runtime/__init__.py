"""Ray and the machines: start, join, ask nodes, storage, the version of the code."""

__all__ = [
    "background",
    "code_version",
    "every_node",
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
