"""Short names that tell rows apart."""

from analysis.tables.labels import choose_axes, label, shorten


def test_an_axis_that_says_the_same_as_an_earlier_one_is_not_named() -> None:
    keys = [{"method": "simcse", "pooler": "cls", "size": 1}, {"method": "declutr", "pooler": "mean", "size": 1}]
    assert choose_axes(keys, ["method", "pooler", "size"]) == ["method"]
    assert choose_axes([*keys, {"method": "simcse", "pooler": "mean", "size": 1}], ["method", "pooler", "size"]) == [
        "method", "pooler",
    ]  # fmt: skip
    assert choose_axes(keys[:1], ["method"]) == []


def test_a_search_names_every_axis_that_varies() -> None:
    """One drawn number tells all cells apart by chance, which is no reason to leave the others out."""
    keys = [{"rate": 0.1, "size": 1, "depth": 3}, {"rate": 0.2, "size": 2, "depth": 3}]
    assert choose_axes(keys, ["rate", "size", "depth"], searched=True) == ["rate", "size"]


def test_labels_are_short_words() -> None:
    key = {"method.dup_rate": 0.32, "method.momentum": None, "train.batch_size": 64}
    assert label(key) == "dup_rate=0.32 momentum=off batch_size=64"
    assert label(key, ["train.batch_size"]) == "batch_size=64" and label(key, []) == "all"


def test_a_long_name_keeps_both_ends() -> None:
    assert shorten("short") == "short"
    assert shorten("a" * 50 + "b" * 50, 20) == "a" * 10 + "…" + "b" * 9
