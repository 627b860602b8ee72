"""Runs of a training program of the user's own: each in a process under its rank, which hears its reports.

`run` is the rank's side. `child` is the process: it calls the user's code, whose face is `trial`; `callback` joins the
Trainer of transformers. `models` keeps the best model and the checkpoints through every kind of end.
"""

__all__ = ["finished", "run", "trial"]
