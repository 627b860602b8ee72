"""`--track`: shows a sweep's runs in experiment trackers; each module of `cse.trackers.tools` supports one."""

from cse.trackers.tools import check_trackers, make_trackers, names
from cse.trackers.tracking import Tracking

__all__ = ["Tracking", "check_trackers", "make_trackers", "names"]
