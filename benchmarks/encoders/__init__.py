"""Masked-LM pretraining of the miniature encoders that ship in `cse_train/weights`, by the recipes in their cards."""
