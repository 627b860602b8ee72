"""Many runs: the only package that imports Ray and Optuna."""

__all__ = ()
