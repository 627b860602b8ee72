"""A worker group without workers: it takes its run's room of the Ray cluster, and a run is a pause in it.

`paths.train_file` names a JSON file with the pause in seconds.
"""

import json
import time

from ray.util.placement_group import placement_group, remove_placement_group

from cluster.slots.group_api import DoneEvent, Group
from cse_train.results import Outcome


class RoomGroup(Group):
    def __init__(self, recycle_after, name="group"):
        self.room, self.until = None, None

    def submit(self, settings, job):
        options = settings.options
        self.room = self.room or placement_group([{"CPU": options.cpus_per_worker}] * options.workers)
        self.pause, self.until = json.loads(job.paths.train_file.read_text()), None
        self.job = job
        return 1

    def events(self, timeout_s):
        if self.until is None:
            if not self.room.wait(timeout_s):
                return []
            self.until = time.monotonic() + self.pause
        left = self.until - time.monotonic()
        time.sleep(max(0.0, min(timeout_s, left)))
        if left > timeout_s:
            return []
        (self.job.folder / "best").mkdir(parents=True, exist_ok=True)
        return [DoneEvent(Outcome(False, self.job.total_examples, 50.0, self.job.total_examples, self.pause, ()))]

    def abort(self):
        self.close()

    def close(self):
        if self.room is not None:
            remove_placement_group(self.room)
            self.room = None
