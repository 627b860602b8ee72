"""Models that embed text: checkpoints of runs, exported folders, models of other libraries, and word vectors."""

__all__ = ["open", "text_model", "word_vectors"]
