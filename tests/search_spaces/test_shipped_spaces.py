"""Every shipped YAML parses and resolves under each profile."""

import pytest

from cse_train import methods
from search_spaces.catalog import catalog, find_folder, load_space
from search_spaces.cells import resolve
from search_spaces.identity.method_code import read_released
from search_spaces.profiles import load_profile

FITTED = ("whitening",)
"""Methods without a step of an optimiser, and so without a rate."""


@pytest.mark.parametrize("name", sorted(catalog()))
@pytest.mark.parametrize("profile", ["small", "tiny", "mid", "paper"])
def test_every_space_resolves_under_every_profile(name, profile):
    space = load_space(name)
    assert space.id == name
    resolved = resolve(space, profile)
    if resolved.size() is None:
        assert space.search and space.search.num_samples
    else:
        assert all(cell.run(0).method in space.methods() for cell in resolved.cells())


@pytest.mark.parametrize("name", sorted(p.stem for p in (find_folder() / "profiles").glob("*.yaml")))
def test_profiles_hold_every_scale_setting(name):
    profile = load_profile(name)
    keys = ("encoder", "corpus", "dev", "examples", "batch_size", "evaluations", "max_seq_length")
    assert {f"train.{key}" for key in keys} <= set(profile.train)
    assert all("train.learning_rate" in profile.settings(method) for method in read_released() if method not in FITTED)


def test_a_shipped_profile_is_parsed_once_until_another_method_is_known(monkeypatch):
    first, names = load_profile("tiny"), methods.names()
    assert load_profile("tiny") is first
    monkeypatch.setattr(methods, "names", lambda: [*names, "mine"])
    again = load_profile("tiny")
    assert again is not first and again == first


def test_demo_is_two_methods_three_settings_two_seeds():
    demo = load_space("demo")
    assert (resolve(demo).size(), len(demo.methods()), len(demo.seeds)) == (6, 2, 2)


def test_every_method_has_a_search():
    for method in read_released():
        space = load_space(method)
        assert space.methods() == [method] and space.sampled
        assert ("train.learning_rate" in space.axes) == (method not in FITTED)


def test_the_small_profile_names_its_generators_by_relative_size():
    space = resolve(load_space("D6"), "small")
    runs = {str(cell.key["method.generator"]): cell.run(0).options.generator for cell in space.cells()}
    assert runs == {
        "bert-base-uncased": "words-l4-h128",
        "distilbert-base-uncased": "words-l2-h128",
        "google/bert_uncased_L-2_H-128_A-2": "words-l1-h64",
    }


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_generators_are_of_their_encoder_s_family(name):
    """Encoders of one family have one vocabulary."""
    profile = load_profile(name)
    family = str(profile.train["train.encoder"]).partition("-")[0]
    named = {settings.get("method.generator") for settings in profile.methods.values()}
    by_axis = {**profile.substitutions, "declutr's": profile.substitutions["declutr"]["train.encoder"]}
    for axis in ("method.generator", "train.encoder", "declutr's"):
        named |= {*by_axis[axis].values()}
    assert {model.partition("-")[0] for model in named if model} == {family, "glove"}


@pytest.mark.parametrize(("space", "label"), [("S1", "MLM 15%"), ("E4", "extension=masked_prediction")])
def test_masked_words_are_filled_from_the_encoder_s_own_vocabulary(space, label):
    filled_by = {}
    for profile in ("paper", "small", "tiny"):
        (cell,) = (cell for cell in resolve(load_space(space), profile).cells() if cell.label == label)
        filled_by[profile] = (cell.run(0).train.encoder, cell.run(0).options.generator)
    assert filled_by == {
        "paper": ("bert-base-uncased", "bert-base-uncased"),
        "small": ("words-l4-h128", "words-l4-h128"),
        "tiny": ("words-l2-h128", "words-l2-h128"),
    }


def test_the_small_profile_keeps_the_shares_of_declutr_s_training_set():
    space = resolve(load_space("L3"), "small")
    shares = sorted({cell.run(0).train.examples for cell in space.cells()})
    assert shares == [10240, 25600] and shares[0] / shares[1] == 0.4
    assert shares[1] == space.profile.train["train.examples"]


def test_one_published_value_has_one_recipe():
    """DiffCSE's Tables 5 and 8 both print 82.22 for SimCSE with BatchNorm: weight 0 of the difference prediction."""
    for profile in ("small", "paper"):
        cells = {name: resolve(load_space(name), profile).cells() for name in ("D5", "D8")}
        (batchnorm,) = (cell for cell in cells["D5"] if cell.label == "SimCSE w/ BatchNorm")
        (zero,) = (cell for cell in cells["D8"] if cell.key == {"method.lambda_weight": 0.0})
        assert batchnorm.flat == zero.flat
