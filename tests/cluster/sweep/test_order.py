"""Which trial Tune begins next."""

from types import SimpleNamespace

from ray.tune.experiment import Trial

from cluster.sweep.tune import InOrder


def test_the_first_that_waits_is_begun_and_trials_that_are_over_are_not_looked_at() -> None:
    """Ray's own scheduler looks at every trial there was, twice at each event: a search of 100,000 runs crawls."""
    states = {"a_00003": Trial.RUNNING, "a_00009": Trial.PENDING, "a_00007": Trial.PENDING}
    live = [SimpleNamespace(trial_id=name, status=state) for name, state in states.items()]
    controller = SimpleNamespace(get_live_trials=lambda: live)  # no get_trials
    assert InOrder().choose_trial_to_run(controller) is live[2]
    live.clear()
    assert InOrder().choose_trial_to_run(controller) is None
