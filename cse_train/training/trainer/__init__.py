"""Runs training programs of the user's own: each in a process under its rank, which receives its reports.

`run` is the rank's side. `child` is the process: it calls the user's code, whose interface is `trial`; `callback` joins
the Trainer of transformers. `models` keeps the best model and the checkpoints through every kind of end.
"""

__all__ = ["finished", "run", "trial"]
