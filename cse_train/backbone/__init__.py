"""Pretrained encoders opened from a folder, a shipped name or the model hub."""

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
    "words",
]
