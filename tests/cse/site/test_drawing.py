"""Marks stand where their numbers say; orders, ticks and citations are those computed by hand."""

import re

import pytest

from cse.site.citation import read
from cse.site.drawing import Curve, Mark, bump, curves, forest
from search_spaces.catalog import ALL, load_all


def mark(paper: float, ours: float, interval: tuple[float, float]) -> Mark:
    return Mark("row", "small-1-c", "undecided", "open", paper, ours, interval, "12", "words")


def ticks(text: str) -> list[tuple[str, str]]:
    """Places in percent and numbers of a plot's axis."""
    return re.findall(r'<text x="([\d.]+)%" y="13"[^>]*>([^<]+)<', text)


def test_a_mark_stands_at_its_difference() -> None:
    text = forest([mark(1.0, -1.0, (-2.0, 0.5))], ("row", "difference", "seeds"), 0.5, "key")
    assert '<circle class="ours" cx="10.00%"' in text, "-1 of a scale from -1.25 to 1.25"
    assert '<svg x="90.00%" y="50%"' in text, "the paper's square"
    assert '<rect class="band" x="30.00%" width="40.00%"' in text, "a tie: -0.5 to 0.5"
    assert '<line class="reach" x1="0.00%" x2="70.00%"' in text and text.count('class="cut"') == 1
    assert ticks(text) == [("10.00", "−1.0"), ("30.00", "−0.5"), ("50.00", "0"), ("70.00", "+0.5"), ("90.00", "+1.0")]


@pytest.mark.parametrize("paper", [10.0**power * n for power in (-3, 0, 2) for n in (1, 1.3, 2, 3.9, 5, 7, 9.9)])
def test_every_scale_has_some_ticks_and_not_too_many(paper: float) -> None:
    numbers = ticks(forest([mark(paper, 0.0, (0.0, 0.0))], ("row", "difference", "seeds"), None, "key"))
    assert len(numbers) in (3, 5) and len({name for _, name in numbers}) == len(numbers)
    assert all(5 <= float(place) <= 95 for place, _ in numbers)


def test_rows_stand_in_both_orders() -> None:
    rows = [("a", 1.0, 30.0), ("b", 3.0, 20.0), ("c", 2.0, 10.0)]
    text = bump(rows, lower_is_better=False)
    left, right = text.split("<h4>Ours</h4>")
    assert re.findall(r"<b>(\d)</b> <span>(\w)", left) == [("1", "a"), ("2", "b"), ("3", "c")]
    assert re.findall(r"<b>(\d)</b> <span>(\w)</span> ([\d.]+)", right) == [
        ("2", "b", "3.00"), ("3", "c", "2.00"), ("1", "a", "1.00")
    ]  # fmt: skip
    assert "3 of 3 rows stand in another place" in text
    assert 'class="fall" x1="0" x2="100%" y1="16.67%" y2="83.33%"' in text
    assert re.findall(r"<b>(\d)</b> <span>(\w)", bump(rows, lower_is_better=True).split("<h4>Ours</h4>")[0]) == [
        ("1", "c"), ("2", "b"), ("3", "a")
    ]  # fmt: skip


def test_a_curve_ends_where_its_seed_ends() -> None:
    text = curves([Curve(0, [100, 200], [10.0, 20.0], 200), Curve(1, [100], [15.0], None)], "sts_dev")
    assert 'd="M0.00 94.64 L100.00 5.36"' in text, "6% to spare above and below"
    assert 'class="dot" d="M100.00 5.36 h0"' in text
    assert "sts_dev from 100 to 200 training examples: seed 0 ends at 20.00, seed 1 ends at 15.00" in text
    assert "NaN" not in curves([Curve(0, [5], [1.0], 5)], "x")


def test_every_paper_has_its_bibtex() -> None:
    printed = {s.paper.citation: s.paper.source for s in load_all([ALL]) if s.paper}
    cites = [read(text, source) for text, source in printed.items()]
    names = {cite.name: cite for cite in cites}
    assert set(names) == {"SimCSE", "ESimCSE", "DiffCSE", "D2CSE", "DeCLUTR"} and len(cites) == 5
    assert names["SimCSE"].bibtex == (
        "@inproceedings{simcse2021,\n"
        "  author = {Gao and Yao and Chen},\n"
        "  title = {{SimCSE}: Simple Contrastive Learning of Sentence Embeddings},\n"
        "  booktitle = {EMNLP},\n"
        "  year = {2021},\n"
        "  eprint = {2104.08821},\n"
        "  archiveprefix = {arXiv},\n"
        "  url = {https://aclanthology.org/2021.emnlp-main.552},\n"
        "}\n"
    )
    assert names["D2CSE"].bibtex.startswith("@misc{d2cse2023,\n  author = {Lee},")
    assert all(cite.links and cite.bibtex.count("{") == cite.bibtex.count("}") for cite in cites)


@pytest.mark.parametrize("text", ["", "Someone, somewhere", "A & B {x} 100%"])
def test_a_citation_of_another_form_is_a_note(text: str) -> None:
    cite = read(text, "a drawer")
    assert cite.links == {} and cite.bibtex.startswith("@misc{") and "  note = {" in cite.bibtex
    assert "{A \\& B \\{x\\} 100\\%}" in read("A & B {x} 100%", "").bibtex
