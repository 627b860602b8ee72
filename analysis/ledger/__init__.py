"""Database of every run, its curve and its scores. Other packages import from this package, not from its modules."""

from analysis.ledger.baselines import Baselines, UntrainedScore
from analysis.ledger.errors import LedgerAway, LedgerError, LostClaim, mask_password
from analysis.ledger.ledger import Ledger
from analysis.ledger.places import network_file_system
from analysis.ledger.rows import Claim, CurvePoint, RunRow, ScoreRow, SweepRow, sweeps_named

__all__ = [
    "Baselines",
    "Claim",
    "CurvePoint",
    "Ledger",
    "LedgerAway",
    "LedgerError",
    "LostClaim",
    "RunRow",
    "ScoreRow",
    "SweepRow",
    "UntrainedScore",
    "baselines",
    "cluster_log",
    "database",
    "exchange",
    "integrity",
    "mask_password",
    "network_file_system",
    "queries",
    "rows",
    "schema",
    "selection_log",
    "sweeps_named",
]
