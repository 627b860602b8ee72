"""Masked-LM pretraining of the shipped encoders."""
