"""Evaluation suites, one module each; `registry` lists them."""

__all__ = ["registry"]
