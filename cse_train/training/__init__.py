"""The training loop with its batches, optimiser and checkpoints, and runs of programs of the user's own."""

__all__ = ["contract", "fit", "loop", "program", "program_folder", "saver", "trial"]
