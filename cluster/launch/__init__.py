"""Renders and submits sweeps as jobs of other systems: Slurm, KubeRay, or a running Ray cluster."""

__all__ = ["config", "files", "job", "targets"]
