"""A sweep's runs in trackers: what `--track` names. Each tool is a module of `cse.trackers.tools`."""

from cse.trackers.tools import checked, made, names
from cse.trackers.tracking import Tracking

__all__ = ["Tracking", "checked", "made", "names"]
