"""A pretraining run of seconds."""

from cse_train.pretrain.config import PretrainConfig

SMALL = PretrainConfig(
    layers=1,
    width=16,
    tokens=9000,
    batch_sentences=16,
    batch_documents=2,
    max_positions=96,
    held_out=40,
    long_share=0.3,
    warmup=0.1,
)


class Stopped(Exception):
    """Stands for a kill between two state files."""
