"""A sweep's runs in trackers: what `--track` names. Each tool is a module of `cse.trackers.tools`."""

from cse.trackers.tools import check_trackers, make_trackers, names
from cse.trackers.tracking import Tracking

__all__ = ["Tracking", "check_trackers", "make_trackers", "names"]
