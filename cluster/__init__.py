"""Many runs: sweeps on Ray, searches with Optuna, and launching on clusters; the core that imports both."""

__all__ = ()
