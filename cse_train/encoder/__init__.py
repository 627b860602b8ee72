"""Encoders, from their files to sentence vectors: opened, computed exactly without padding, pooled, prompted.

`folders` and `identity` read an encoder's files without torch; `backbone` opens it. `encoder` computes BERT and RoBERTa
on packed batches (`packing`), `automodel` any other architecture. `card` and its kernels are for GPUs.
"""

__all__ = [
    "automodel",
    "backbone",
    "card",
    "compact_vocabulary",
    "edits",
    "encoder",
    "folders",
    "frozen_encoder",
    "generator",
    "gone",
    "identity",
    "masked_lm",
    "packing",
    "pooling",
    "prompted_transformer",
    "reading_order",
    "transformers_io",
    "weight_files",
]
