"""Pretrained encoders, opened from a folder, by the name of a shipped one, or from the model hub."""

__all__ = [
    "automodel",
    "backbone",
    "config_file",
    "folders",
    "identity",
    "prompts",
    "reading_order",
    "refusals",
    "transformers_io",
    "weight_files",
    "word_vectors",
]
