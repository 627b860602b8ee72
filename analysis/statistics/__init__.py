"""Means, intervals, agreement, importance, selection: arithmetic on plain numbers."""
