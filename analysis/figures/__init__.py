"""Plots of tables and studies."""
