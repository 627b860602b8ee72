"""Evaluation suites, a module each."""

__all__ = ["registry"]
