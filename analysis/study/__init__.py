"""Data of a report on a sweep: its runs, costs, curves, and figures' content."""

__all__ = ["expected_seeds", "figure_data", "study"]
