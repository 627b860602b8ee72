"""The commands as Python functions: `notebook` plans and trains, `answers` reads and writes results."""

__all__ = ["answers", "notebook"]
