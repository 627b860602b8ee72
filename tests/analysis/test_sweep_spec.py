"""A sweep's stored description: profiles by their names of today, and what a sweep confirms."""

import pytest

from analysis.sweep_spec import Confirmation, SweepSpec


@pytest.mark.parametrize(("name", "today"), [("small", "wiki_small"), ("tiny", "wiki_tiny"), ("paper", "paper")])
def test_a_sweep_recorded_before_the_names_changed_keeps_its_encoder(name: str, today: str) -> None:
    assert SweepSpec({"profile": name}).profile == today
    assert SweepSpec({"profile": name, "encoder": "words-l4-h128"}).profile == name


def test_a_file_of_ones_own_keeps_its_name_and_extends_what_it_did() -> None:
    old = {"profile": "small", "profile_yaml": {"version": 1, "extends": "small", "train": {"examples": 640}}}
    assert SweepSpec(old).profile == "small"
    assert SweepSpec(old).profile_yaml == {"version": 1, "extends": "wiki_small", "train": {"examples": 640}}
    assert SweepSpec({**old, "encoder": "words-l4-h128"}).profile_yaml == old["profile_yaml"]
    assert SweepSpec({"profile": "mine", "profile_yaml": {"version": 1}}).profile_yaml == {"version": 1}


def test_a_sweep_without_a_profile_has_none() -> None:
    assert (SweepSpec({}).profile, SweepSpec({}).profile_yaml) == (None, None)


def test_a_sweep_says_what_it_confirms() -> None:
    stored = {"sweep": "faq", "cell": "lr=0.1", "reference": "untrained", "seeds": [3, 4], "axes": ["lr"]}
    assert SweepSpec({"confirms": stored}).confirms == Confirmation("faq", "lr=0.1", "untrained", [3, 4], ["lr"])
    assert SweepSpec({"seeds": [3, 4]}).confirms is None
