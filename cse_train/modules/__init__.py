"""Modules that methods share: pooling, prompts, projectors, queues."""

__all__ = [
    "frozen_encoder",
    "glow",
    "momentum",
    "pooling",
    "projector",
    "prompted_transformer",
    "prompts",
    "queue",
    "whitener",
]
