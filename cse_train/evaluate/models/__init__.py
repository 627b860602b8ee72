"""Whatever can embed text: our checkpoints, exported folders, libraries' models."""

__all__ = ["open", "text_model", "word_vectors"]
