"""Masked language models that edit sentences."""

__all__ = ["conditional_tasks", "corruption", "edit_store", "edited", "filling", "generator", "identity"]
