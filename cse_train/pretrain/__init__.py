"""Masked-LM pretraining of the shipped encoders."""

__all__ = ["pretrain"]
