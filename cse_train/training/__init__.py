"""The training loop, its batches and its optimiser."""

__all__ = ["contract", "finished", "fit", "loop", "saver", "trainer"]
