"""Evaluation suites, one module each."""

__all__ = ["registry"]
