"""BERT and RoBERTa computed exactly on packed batches, without the padding."""

__all__ = [
    "card",
    "compact_vocabulary",
    "dropout",
    "encoder",
    "kinds",
    "layer",
    "masked_inputs",
    "masked_lm_head",
    "packing",
]
