"""The training loop, its batches and its optimiser."""
