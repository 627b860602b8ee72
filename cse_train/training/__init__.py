"""The training loop, its batches, its optimiser and its checkpoints."""

__all__ = ["contract", "finished", "fit", "loop", "saver", "trainer"]
