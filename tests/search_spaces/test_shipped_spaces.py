"""Every shipped YAML parses, resolves under each profile, and the papers' numbers are the papers'."""

import pytest

from cluster.catalog import catalog, shipped
from cluster.profiles import load_profile
from cluster.space import load_space

PUBLISHED = {
    "E7": {0.08: 83.5, 0.12: 83.62, 0.16: 82.01, 0.2: 83.01, 0.24: 84.24, 0.28: 82.96, 0.32: 84.85, 0.36: 83.84},
    "E8": {1.0: 83.83, 1.5: 83.81, 2.0: 83.03, 2.5: 84.85, 3.0: 82.66},
}


@pytest.mark.parametrize("name", sorted(catalog()))
@pytest.mark.parametrize("profile", ["small", "paper"])
def test_every_space_resolves_under_every_profile(name, profile):
    space = load_space(name)
    assert space.id == name
    resolved = space.resolve(profile)
    if resolved.size() is None:
        assert space.search and space.search.num_samples
    else:
        assert all(cell.run(0).method in space.methods() for cell in resolved.cells())


@pytest.mark.parametrize("name", sorted(p.stem for p in (shipped() / "profiles").glob("*.yaml")))
def test_profiles_hold_every_scale_setting(name):
    profile = load_profile(name)
    keys = ("encoder", "corpus", "dev", "examples", "batch_size", "evaluations", "max_seq_length")
    assert {f"train.{key}" for key in keys} <= set(profile.train)
    assert all("train.learning_rate" in profile.settings(method) for method in ("simcse", "esimcse"))


@pytest.mark.parametrize(("name", "axis"), [("E7", "method.dup_rate"), ("E8", "method.queue_multiple")])
def test_published_values_of_one_axis(name, axis):
    paper = load_space(name).paper
    assert {key[axis]: cells["sts_dev"] for key, cells in paper.rows} == PUBLISHED[name]
    assert len(paper.rows) == load_space(name).resolve().size()


def test_published_dropout_values():
    rows = {(k["train.dropout"], k["method.fixed_dropout"]): c["sts_dev"] for k, c in load_space("S3").paper.rows}
    assert rows == {
        (0.0, False): 71.1, (0.01, False): 72.6, (0.05, False): 81.1, (0.1, False): 82.5, (0.15, False): 81.4,
        (0.2, False): 80.5, (0.5, False): 71.0, (0.1, True): 43.6,
    }  # fmt: skip


def test_demo_is_two_methods_three_settings_two_seeds():
    demo = load_space("demo")
    assert (demo.resolve().size(), len(demo.methods()), len(demo.seeds)) == (6, 2, 2)
