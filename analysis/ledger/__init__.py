"""Every run, its curve and its scores, in one database. The door of the room: import from here."""

from analysis.ledger.baselines import Baselines as Baselines
from analysis.ledger.baselines import UntrainedScore as UntrainedScore
from analysis.ledger.errors import LedgerAway as LedgerAway
from analysis.ledger.errors import LedgerError as LedgerError
from analysis.ledger.errors import LostClaim as LostClaim
from analysis.ledger.errors import shown_url as shown_url
from analysis.ledger.ledger import Ledger as Ledger
from analysis.ledger.rows import Claim as Claim
from analysis.ledger.rows import CurvePoint as CurvePoint
from analysis.ledger.rows import RunRow as RunRow
from analysis.ledger.rows import ScoreRow as ScoreRow
from analysis.ledger.rows import SweepCell as SweepCell
from analysis.ledger.rows import SweepRow as SweepRow
from analysis.ledger.rows import sweeps_named as sweeps_named
