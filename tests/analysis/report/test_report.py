"""The report of a synthetic ledger: what stands in it, what it says is lacking, and that no text becomes markup."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.answers.judge import Judgement
from analysis.ledger import Ledger
from analysis.report.report import Report, make_report, page, write_report
from analysis.study.study import Study, read_study
from analysis.tables.aggregate import Table, aggregate
from analysis.tables.results import results_of
from analysis.tables.spec import PaperRow, TableSpec
from tests.documents import Reader
from tests.run_values import book_run, point_of, score_of

NASTY = "<script>alert(1)</script> & $x$ \"quoted\" 'too'"
RATES = (0.1, 0.2, 0.3)
AXES = ["method.dup_rate", "method.momentum"]


def train(ledger: Ledger, folder: Path, rate: float, seed: int, *, cosines: bool, geometry: bool) -> str:
    """One finished run by the ledger's own calls."""
    signature, level = f"{int(rate * 10)}-{seed}", 60 + 10 * rate + seed
    claim = ledger.claim(
        signature,
        {"train.dev": "sts_dev", "method.dup_rate": rate},
        method="esimcse",
        seed=seed,
        owner="o",
        identity={"corpus": "c" * 64},
        provenance={"commit": "abc", "host": NASTY, "versions": {"torch": "2.13.0"}},
    )
    assert claim is not None
    ledger.running(claim, folder)
    geometric = {"alignment": 0.3 + rate, "uniformity": -2.0 - seed / 10} if geometry else {}
    points = [
        point_of(100 * i, level - 3 + i, step=i, seconds=1.0 * i, metrics={"sts_dev": level - 3 + i, **geometric})
        for i in (1, 2, 3)
    ]
    ledger.add_points(claim, points)
    end: dict[str, Any] = {"examples": 300, "best": level, "best_examples": 300, "seconds": 3.0, "folder": folder}
    ledger.finish(claim, "done", **end)
    file = folder / f"{signature}.npz"
    generator = np.random.default_rng(seed)
    gold = generator.uniform(0, 5, 200)
    np.savez(file, cosines=gold / 5 + generator.normal(0, 0.1, 200), gold=gold)
    kept = (file, hashlib.sha256(file.read_bytes()).hexdigest()) if cosines else (None, None)
    ledger.add_score(signature, score_of("sts_dev", level, {"suite": "sts_dev", "split": "dev"}, *kept))
    return signature


def fail(ledger: Ledger, signature: str, reason: str) -> None:
    end = {"state": "failed", "examples": 100, "best": None, "best_examples": None, "reason": reason}
    book_run(ledger, signature, {"train.dev": "sts_dev"}, method="esimcse", seed=9, owner="o", **end)


def made(folder: Path, *, cosines: bool = True, geometry: bool = True, seeds: int = 3) -> tuple[Study, Table]:
    """A study of three rates with a failed run and one that nobody started."""
    ledger = Ledger.open(folder / "ledger.db")
    keys = {rate: dict(zip(AXES, (rate, 0.995), strict=True)) for rate in RATES}
    planned = [
        (keys[rate], train(ledger, folder, rate, seed, cosines=cosines, geometry=geometry), seed)
        for rate in RATES
        for seed in range(seeds)
    ]
    fail(ledger, "broken", f"loss is nan; {NASTY}")
    planned += [(keys[0.3], "broken", 9), (keys[0.1], "", 8)]
    printed = [PaperRow(key=keys[0.1], cells={"sts_dev": 83.5})]
    rows = list(keys.values())
    spec = TableSpec(id="X1", title=NASTY, axes=AXES, columns=["sts_dev"], rows=rows, published=printed)
    table = aggregate(spec, results_of(ledger, planned, spec.columns))
    return read_study(ledger, planned, id="X1", title=NASTY, axes=AXES, command=f"cse run {NASTY}"), table


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Table]:
    return made(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def report(study: tuple[Study, Table]) -> Report:
    return make_report(*study)


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return page(report)


FIGURES = ["axis-sts_dev", "learning", "importance", "plane", "cosines", "budget"]


def test_a_whole_ledger_gives_every_figure_with_words_beside_it(report: Report, text: str) -> None:
    assert [picture.name for picture in report.pictures] == FIGURES
    parsed = Reader(text)
    assert [found["id"] for found in parsed.all("figure")] == FIGURES
    for image in parsed.all("img"):
        assert len(image["alt"]) > 20 and int(image["width"]) > 100
        source = image["src"].removeprefix("data:image/svg+xml;base64,")
        assert base64.b64decode(source, validate=True).startswith(b"<?xml")
    levels = [int(tag[1]) for tag, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
    assert levels == [1] + [2] * len(report.sections)
    assert parsed.all("html") == [{"lang": "en"}]


def test_no_text_becomes_markup_and_nothing_is_fetched(text: str) -> None:
    parsed = Reader(text)
    assert not {"script", "iframe", "object", "b"} & {tag for tag, _ in parsed.elements}
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    addresses = [value for _, found in parsed.elements for name, value in found.items() if name in ("src", "href")]
    assert all(value.startswith(("data:", "#")) for value in addresses) and len(addresses) > len(FIGURES)
    assert not re.search(r"url\(|@import|\son[a-z]+=", text)
    assert "default-src 'none'" in str(parsed.all("meta")[1]["content"])


def test_facts_of_the_runs_are_told(text: str) -> None:
    assert "esimcse: 9 of 11 runs finished, 3 cells. Best on sts_dev: dup_rate=0.3, 64.00 ± 1.00 (n 3)" in text
    assert "<td>2,700</td>" in text, "examples of finished runs"
    assert "failed" in text and "loss is nan" in text and "dup_rate=0.3 seed 9" in text
    assert "unclaimed" in text and "dup_rate=0.1 seed 8" in text
    for word in ("versions.torch", "2.13.0", "c" * 64, "split dev, suite sts_dev", "seeds alone (1 of 20)"):
        assert word in text, word


def test_the_sentence_that_matters_stands_first_with_signs_and_tones_beside_the_verdicts(
    study: tuple[Study, Table],
) -> None:
    verdicts = {(0, "sts_dev"): Judgement("opposite direction", "why", interval=(-1.0, -0.5), published=1.0)}
    text = page(make_report(*study, verdicts, same_scale=False))
    sentence = '<p class="headline">X1: 1 opposite direction; not the paper&#39;s scale</p>'
    assert text.index(sentence) < text.index("runs finished")
    assert '<td class="text bad">✗ opposite direction</td>' in text
    assert "headline" not in page(make_report(*study)).partition("</style>")[2]


def test_equal_ledgers_give_equal_bytes(study: tuple[Study, Table], text: str) -> None:
    assert page(make_report(*study)) == text


def test_figures_are_written_beside_the_page_on_request(report: Report, tmp_path: Path) -> None:
    part = replace(report, sections=report.sections[:1])
    written = write_report(part, tmp_path / "out", figures=True)
    names = {f"axis-sts_dev.{suffix}" for suffix in ("png", "pdf")}
    assert {path.name for path in written.parent.iterdir()} == names | {"index.html"}
    assert (written.parent / "axis-sts_dev.pdf").read_bytes().startswith(b"%PDF")
    assert (written.parent / "axis-sts_dev.png").read_bytes().startswith(b"\x89PNG")


def test_a_long_table_scrolls_in_a_box_and_is_printed_whole(study: tuple[Study, Table]) -> None:
    rows = [{"a": number} for number in range(70)]
    table = aggregate(TableSpec(id="X", axes=["a"], columns=["c"], rows=rows), [])
    whole = make_report(study[0], table)
    text = page(replace(whole, sections=whole.sections[:1]))
    assert '<div class="wide long"' in text and "70 rows are too many for one axis" in text
    assert "<details" not in text, "what is folded is not printed"


def test_what_is_lacking_is_said(tmp_path: Path) -> None:
    report = make_report(*made(tmp_path, cosines=False, geometry=False, seeds=1))
    said = {section.heading: " ".join(section.texts) for section in report.sections}
    assert said["Cosines by rating"] == "No kept per-pair cosines of the best or the worst cell are at hand."
    assert said["Alignment and uniformity"] == "No finished run has both numbers."
    assert [picture.name for picture in report.pictures] == ["axis-sts_dev", "learning", "importance", "budget"]
    caption = next(picture.caption for picture in report.pictures if picture.name == "importance")
    assert "No cell has two seeds" in caption


def test_changed_cosines_are_not_shown(tmp_path: Path) -> None:
    found = made(tmp_path, seeds=1)
    for file in tmp_path.glob("*.npz"):
        file.write_bytes(b"changed")
    assert "cosines" not in [picture.name for picture in make_report(*found).pictures]


def test_a_search_of_four_axes_keeps_all_of_them(tmp_path: Path) -> None:
    """One drawn learning rate tells all cells apart; names, importance and effects have the other axes too."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    axes = ["train.learning_rate", "method.temperature", "method.dup_rate", "method.queue_multiple"]
    generator, planned = np.random.default_rng(0), []
    for number, draws in enumerate(generator.uniform(size=(12, 4))):
        key = dict(zip(axes, (1e-5 * 100 ** draws[0], *(float(draw) for draw in draws[1:])), strict=True))
        signature = train(ledger, tmp_path, float(draws[1]), number, cosines=False, geometry=False)
        planned.append((key, signature, number))
    spec = TableSpec(id="S", axes=axes, columns=["sts_dev"], searched=True)
    table = aggregate(spec, results_of(ledger, planned, spec.columns))
    study = read_study(ledger, planned, id="S", title="A search", axes=axes, searched=True)
    report = make_report(study, table)
    names = [axis.rpartition(".")[2] for axis in axes]
    assert study.axes == axes and table.named == axes
    assert all(f"{name}=" in report.summary for name in names)
    pictures = {picture.name: picture for picture in report.pictures}
    assert all(axis in pictures["importance"].alt and axis in pictures["effects"].alt for axis in axes)
    panels = [panel for panel in pictures["effects"].figure.axes if panel.get_visible()]
    assert sorted(panel.get_xlabel() for panel in panels) == sorted(axes)
    labels = [label.get_text() for label in pictures["axis-sts_dev"].figure.axes[0].get_yticklabels()]
    assert all(f"{name}=" in label for label in labels for name in names)
