"""Launch targets, a module each: what they need, what they render, how they are submitted."""

__all__ = ["config", "files", "job", "targets"]
