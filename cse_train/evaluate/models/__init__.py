"""Whatever can embed text: our checkpoints, exported folders, libraries' models."""
