"""Proposes the cells of a search, with samplers, budgets and a mirror for optuna-dashboard."""

__all__ = ["budget", "optuna_studies", "search"]
