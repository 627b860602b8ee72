"""A table whose runs never beat their first evaluation, out of a ledger: no tie, no direction, no order on any page."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.answers.study import Reproduction, compare_with_paper, judge_study, read_space
from analysis.ledger import Baselines, Ledger
from analysis.render.formats import render
from analysis.report.report import make_report
from cse.site.content import Site
from cse.site.files import files
from cse.site.gallery import gather
from cse.site.wall import wall
from search_spaces.cells import ResolvedSpace
from tests.site_ledger import noise, small, train

WHY = "18 of 18 runs never beat their first evaluation or their encoder without training"
WORDS = ("same direction", "opposite direction", "tie", "ordering supported", "not supported")


SCALES = {1280: ("E8 longer", 8.0), 640: ("E8 shorter", 8.0), 320: ("E8 shortest", 0.03)}
"""Training examples -> a sweep of E8 and the deviation of its seeds."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """D7 as it was at `tiny`: six rows that seeds do not tell apart, each best at its first evaluation; E8 so at
    `small`, and at three shorter scales where runs learn."""
    with contextlib.closing(Ledger.open(tmp_path_factory.mktemp("idle") / "ledger.db")) as opened:
        for id in ("D7", "E8"):
            train(opened, small(id), 3, lambda run: 33.97 + noise(run, 0.01), idle=True)
        for examples, (sweep, deviation) in SCALES.items():
            shorter = small("E8", {"train.examples": examples})
            train(opened, shorter, 3, lambda run, spread=deviation: 50.0 + noise(run, spread), sweep)  # type: ignore[misc]
        yield opened


@pytest.fixture(scope="module")
def site(ledger: Ledger) -> Site:
    return gather(ledger, ["a ledger"])


def page_of(resolved: ResolvedSpace, ledger: Ledger) -> Reproduction:
    study, made = read_space(resolved, ledger, None, None)
    planned = [(member.key, member.run.signature, member.seed) for member in study.members if member.run is not None]
    return judge_study(resolved, study, made, ledger, planned)


def test_nothing_happened_and_nothing_is_counted(ledger: Ledger) -> None:
    page = page_of(small("D7"), ledger)
    assert page.headline == f"D7: 5 without signal; {WHY}; not the paper's scale"
    plain = page.as_dict()
    assert [verdict["word"] for verdict in plain["verdicts"]].count("no signal") == 5
    assert plain["no_signal"] == WHY and [order["word"] for order in plain["ordering"]] == ["no signal"]
    assert plain["rows"][0]["cells"]["sts_dev"]["idle"] == [0, 1, 2]
    for form in ("md", "html", "tex"):
        text = render(page.table, form, page.verdicts, page.ordering)
        assert WHY in text and "no signal" in text and not [word for word in WORDS if word in text], form
    assert "∅ no signal" in page.markdown()


def test_the_site_and_the_report_say_so(ledger: Ledger, site: Site) -> None:
    pages = dict(files(site))
    listing = json.loads(pages["site.json"])
    (table,) = [table for table in listing["tables"] if table["id"] == "D7"]
    assert table["verdicts"] == {"no signal": 5, "reference": 1} and table["scale"] == "small"
    assert (
        "small, 4 layers, 25,600 sentences: 5 without signal" in pages["tables/D7.html"]
        and '<i class="grey">∅</i>' in pages["index.html"]
    )
    assert " 4 ties, 6 without signal, " in listing["sentence"] and listing["verdicts"]["no signal"] == 6
    resolved = small("D7")
    study, made = read_space(resolved, ledger, None, None)
    verdicts, ordering = compare_with_paper(resolved, study, made, ledger)
    assert f"5 without signal; {WHY}" in make_report(study, made, verdicts, ordering, same_scale=False).headline


def test_runs_below_their_encoder_have_no_signal_under_the_pooler_that_is_scored(tmp_path: Path) -> None:
    """E8 rises to 61 under [CLS]: no signal where the untrained [CLS] has 62, whatever the untrained mean has."""
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        train(ledger, small("E8"), 3, lambda run: 61.0 + noise(run, 0.03))
        dev = ledger.runs()[0].identity["dev"]
        for untrained, word in ((62.0, "no signal"), (51.5, "tie")):
            scores = {"untrained [CLS]": untrained, "untrained mean": 113.5 - untrained}
            ledger.store_baselines([Baselines("sts_dev", "words-l4-h128", "wiki", 512, {"suite": dev}, scores)])
            words = {verdict.word for verdict in page_of(small("E8"), ledger).verdicts.values()}
            assert words == {word, "reference"}


def test_the_wall_takes_the_scale_that_decides_most_then_the_larger(site: Site) -> None:
    """Equal rows that learn are ties; of two scales that decide nothing the one with signal, then the larger."""
    (sheet,) = [sheet for sheet in site.published if sheet.id == "E8"]
    assert [(scale.name.partition("=")[2], scale.decided) for scale in sheet.scales] == [
        ("320", 4), ("1280", 0), ("640", 0), ("", 0),
    ]  # fmt: skip
    assert '<li class="badge ">counted: small, 4 layers, 320 sentences</li>' in wall(site)


def test_a_paper_that_decides_stands_before_one_with_more_values_without_signal(site: Site) -> None:
    """Six values of D7, none of which has signal, and five of E8."""
    sheets = {sheet.id: sheet for sheet in site.published}
    two = replace(site, sheets=[sheets["D7"], replace(sheets["E8"], scales=sheets["E8"].scales[:1])])
    assert [len(sheet.verdicts) for sheet in two.sheets] == [6, 5]
    assert [listed[0].id for listed in two.papers.values()] == ["E8", "D7"]
