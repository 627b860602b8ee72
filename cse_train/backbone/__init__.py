"""Pretrained encoders opened from a folder, a shipped name or the model hub."""
