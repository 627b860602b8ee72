"""A sweep as one run of Ray Tune: its slots, their place in the cluster, and the scheduler."""

import threading
import uuid
from typing import Any

from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler
from ray.tune.search import ConcurrencyLimiter

from cluster.bookings import Ticket
from cluster.desk import Desk
from cluster.options import SweepOptions
from cluster.ray_cluster import SLOT
from cluster.resources import HEAD
from cluster.slot import Slot
from cluster.tune_desk import Books, DeskSearcher, Ending
from cse_train.fields import ConfigError


def run_trials(desk: Desk, options: SweepOptions, slots: int, over: threading.Event) -> None:
    """Run everything that the desk gives out, `slots` runs at once; returns when there is no more or `over` is set."""
    trials: dict[str, Ticket] = {}
    searcher, books = DeskSearcher(desk, trials, over, slots), Books(desk, trials, over)
    tuner = tune.Tuner(
        tune.with_resources(Slot, tune.PlacementGroupFactory([_slot_bundle()])),
        tune_config=tune.TuneConfig(
            metric="best",
            mode="max",
            num_samples=-1,
            search_alg=ConcurrencyLimiter(searcher, max_concurrent=slots),
            scheduler=_scheduler(options),
            reuse_actors=options.isolation == "slot",
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=f"sweep-{uuid.uuid4().hex[:12]}",
            storage_path=str(options.storage / "ray" / "tune"),
            callbacks=[books],
            stop=Ending(over, books),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=options.max_retries),
            verbose=0,
        ),
    )
    tuner.fit()
    if books.refused is not None:
        raise ConfigError([books.refused])
    for error in (searcher.error, books.error):
        if error is not None:
            raise error


def _scheduler(options: SweepOptions) -> Any:
    asha = options.asha
    if asha is None:
        return FIFOScheduler()
    return AsyncHyperBandScheduler(
        time_attr="examples",
        max_t=asha.max_examples + 1,  # a run that reaches its end is done, not stopped
        grace_period=asha.grace_examples,
        reduction_factor=asha.reduction_factor,
    )


def _slot_bundle() -> dict[str, float]:
    """What a slot itself takes: a place on the head, so that a lost node costs a slot its ranks and never itself.

    No CPU, however little: a full node must still hold its workers.
    """
    import ray

    heads = [node["Resources"] for node in ray.nodes() if node["Alive"] and HEAD in node["Resources"]]
    place = {HEAD: 0.001} if heads else {}
    if any(SLOT in head for head in heads) or (not heads and ray.cluster_resources().get(SLOT)):
        place[SLOT] = 1
    return place or {"memory": 1}


def _trial_name(trial: Any) -> str:
    return str(trial.trial_id)
