"""Evaluation suites, a module each."""
