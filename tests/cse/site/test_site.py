"""The site's files say what the ledger says, load nothing, run nothing; its marks stand where their numbers say."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.answers.study import Reproduction, compare_with_paper, judge_study, read_space
from analysis.ledger import Baselines, Ledger
from analysis.render.formats import render
from analysis.render.signs import GLYPHS, name_several
from analysis.report.report import make_report
from analysis.tables.labels import duration
from cse.site.citation import read
from cse.site.content import Site, counts
from cse.site.drawing import Curve, Mark, bump, curves, forest
from cse.site.files import files
from cse.site.gallery import gather
from cse.site.page import make_table
from cse.site.wall import banner, sentence, wall
from search_spaces.catalog import ALL, load_all
from search_spaces.cells import ResolvedSpace
from tests.cse.site.conftest import FOREIGN
from tests.documents import Reader
from tests.site_ledger import COMMIT, noise, small, train

MOST = 200_000
"""Bytes of index.html."""


def pages(folder: Path) -> dict[str, Reader]:
    return {str(p.relative_to(folder)): Reader(p.read_text(encoding="utf8")) for p in sorted(folder.rglob("*.html"))}


def listing(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "site.json").read_text(encoding="utf8")))


def test_every_published_table_is_on_the_wall_once(folder: Path) -> None:
    published = {space.id for space in load_all([ALL])}
    links = [a["href"] for a in pages(folder)["index.html"].all("a") if a.get("href", "").startswith("tables/")]
    assert Counter(links) == Counter(f"tables/{name}.html" for name in [*published, "systems"])
    assert len(published) == 45


def test_the_counts_on_the_wall_are_those_of_the_tables_json(folder: Path) -> None:
    said: Counter[str] = Counter()
    for table in listing(folder)["tables"]:
        if not table["citation"]:
            continue
        if table["scales"]:
            plain = json.loads((folder / table["scales"][0]["files"][0]).read_text(encoding="utf8"))
            mine = Counter(verdict["word"] for verdict in plain["verdicts"])
            assert dict(mine) == table["verdicts"], table["id"]
            said += mine
        else:
            (space,) = load_all([table["id"]])
            rows = space.paper.rows if space.paper else ()
            said["not run"] += sum(len(row.cells) for row in rows)
    assert dict(said) == listing(folder)["verdicts"]
    text = (folder / "index.html").read_text(encoding="utf8")
    for word, number in said.items():
        assert f"<b>{number:,}</b> {name_several(word, number)}" in text, word
    assert f"Of {said.total() - said['reference']:,} published values" in text


def test_a_strip_has_a_glyph_for_every_value(folder: Path, site: Site) -> None:
    text = (folder / "index.html").read_text(encoding="utf8")
    for sheet in site.published:
        (card,) = re.findall(rf'<article [^>]*><h3><a href="tables/{sheet.id}\.html">.*?</article>', text, re.DOTALL)
        drawn = re.findall(r'<div class="strip.*?</div>', card)
        compared = [s for s in sheet.scales if {v.word for v in s.verdicts.values()} - {"not run", "reference"}]
        wanted = [s.verdicts for s in compared[:2] or sheet.scales[:1]] or [sheet.unrun]
        assert ("Also at " in card) == (len(sheet.scales) > len(wanted)), sheet.id
        assert len(drawn) == sum(bool(verdicts) for verdicts in wanted), sheet.id
        for strip, verdicts in zip(drawn, filter(None, wanted), strict=True):
            glyphs = Counter(re.findall(r"<i[^>]*>([^< ])</i>", strip))
            assert glyphs == Counter(GLYPHS[verdict.word] for verdict in verdicts.values()), sheet.id


def test_the_wall_says_the_states_and_the_scale(site: Site) -> None:
    states = {sheet.id: sheet.state for sheet in site.sheets}
    assert (states["E7"], states["S3"], states["E8"], states["C2"]) == ("done", "done", "done", "not run")
    assert states["systems"] == "partial"
    assert banner(site).startswith("Not all at the papers' scale: profile small trains a smaller model")
    none = Site([replace(sheet, scales=()) for sheet in site.sheets], [])
    assert banner(none).startswith("No run of these tables")
    alone = Site([replace(s, scales=[x for x in s.scales if not x.same]) for s in site.sheets], [])
    assert banner(alone).startswith(
        "Not the papers' scale. No table was run at its paper's own settings: profile small trains a far smaller model."
    )
    paper = Site([replace(s, scales=[x for x in s.scales if x.same]) for s in site.sheets], [])
    assert banner(paper).startswith("Every run was made at its paper's own scale")
    assert sentence(none).endswith(f"{counts(none.published)['not run']:,} not run.")
    assert [duration(s) for s in (9, 90, 5400)] == ["9 s", "2 min", "1.5 h"]


def test_scales_that_contradict_each_other_are_named(folder: Path, site: Site) -> None:
    by_id = {sheet.id: sheet for sheet in site.sheets}
    scales = [scale.name for scale in by_id["E7"].scales]
    assert scales == ["small", "small, train.examples=640", "paper"], "E8's default row is E7's"
    assert {scale.name for scale in by_id["E8"].scales} == {"paper", "small"}
    at, shorter = "small, 4 layers, 25,600 sentences", "small, 4 layers, 640 sentences"
    line = f"dup_rate=0.08, sts_dev: same direction at {at}, but opposite direction at {shorter}"
    assert line in by_id["E7"].contradictions
    assert by_id["S3"].contradictions == []
    page = (folder / "tables" / "E7.html").read_text(encoding="utf8")
    assert "Two scales contradict each other" in page
    assert page.index(f"E7 at {at}:") < page.index('<table class="sheet">')


def test_a_page_has_the_runs_behind_every_entry(folder: Path, site: Site) -> None:
    page = pages(folder)["tables/E7.html"]
    text = (folder / "tables" / "E7.html").read_text(encoding="utf8")
    scale = next(sheet for sheet in site.sheets if sheet.id == "E7").scales[0]
    for index, row in enumerate(scale.table.rows):
        assert page.all("li", id=f"small-{index + 1}-sts_dev") and page.all("a", href=f"#small-{index + 1}-sts_dev")
        for value in row.entries["sts_dev"].values:
            assert f"<td>{value:.2f}</td>" in text
    assert text.count(COMMIT[:12]) == 8 * 3 + 8 * 3 + 3
    assert "cse run E7 --set method.dup_rate=0.08 --seeds 3" in text
    assert "cse reproduce E7 --profile small --seeds 3 --set train.examples=640" in text
    assert text.count('<figure class="curve">') == 8 + 8 + 1 and text.count('<figure class="bump"') == 2
    assert re.search(r"encoder [0-9a-f]{12}", text), "the data's hashes"
    words = "".join(page.words)
    assert "@inproceedings{esimcse2022," in words and "author = {Wu and others}" in words


def test_the_paper_s_layout_is_kept(site: Site) -> None:
    for sheet in site.published:
        (space,) = load_all([sheet.id])
        assert space.paper is not None
        assert sheet.layout.spec.columns[: len(space.paper.columns)] == list(space.paper.columns), sheet.id
        if not sheet.layout.spec.searched and space.paper.rows:
            keys = [sheet.layout.rows[index].key for index in sheet.order(sheet.layout)]
            axes = sheet.layout.spec.axes
            printed = [{axis: row.key.get(axis) for axis in axes} for row in space.paper.rows]
            assert keys[: len(printed)] == printed, sheet.id
        if space.search is not None:
            assert len(sheet.layout.rows) == len(space.paper.rows), "a search's other cells are not the paper's"
        shown = [scale.table.spec.columns for scale in sheet.scales]
        assert all(columns == sheet.layout.spec.columns for columns in shown), sheet.id
        columns = make_table(sheet, sheet.layout, {}, None).columns
        assert columns[0] == "avg" or "avg" not in columns, "a mean comes first, where nothing cuts it off"


def test_nothing_is_loaded_from_anywhere(folder: Path) -> None:
    for name, page in pages(folder).items():
        loads = [(tag, value) for tag, a in page.elements for key, value in a.items() if _loads(tag, key)]
        assert [(tag, value) for tag, value in loads if not value.startswith("data:")] == [], name
        (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
        assert policy["content"].startswith("default-src 'none'; img-src data:")
        assert len(page.all("script")) == (name == "index.html")
    styles = re.findall(r"<style>(.*?)</style>", (folder / "index.html").read_text(encoding="utf8"), re.DOTALL)
    assert styles and not any(word in "".join(styles) for word in ("url(", "@import", "http"))


def _loads(tag: str, attribute: str) -> bool:
    """Whether a browser fetches what the attribute names, without a click."""
    return attribute in ("src", "srcset", "poster", "background", "action") or (attribute == "href" and tag != "a")


def test_links_lead_somewhere_and_no_id_is_given_twice(folder: Path) -> None:
    every = pages(folder)
    ids = {name: [a["id"] for _, a in page.elements if "id" in a] for name, page in every.items()}
    for name, page in every.items():
        assert [id for id, number in Counter(ids[name]).items() if number > 1] == [], name
        assert page.broken == [], name
        for link in (a["href"] for a in page.all("a") if "://" not in a["href"]):
            file, _, fragment = link.partition("#")
            target = ((folder / name).parent / file).resolve() if file else folder / name
            assert target.is_file(), (name, link)
            assert not fragment or fragment in ids[str(target.relative_to(folder.resolve()))], (name, link)


def test_a_foreign_text_does_not_run(folder: Path, site: Site) -> None:
    index = (folder / "index.html").read_text(encoding="utf8")
    assert "<script>document" not in index and "&lt;script&gt;document.title = 1&lt;/script&gt; &amp;" in index
    named = replace(site.sheets[0], title=FOREIGN, where=FOREIGN, metric=FOREIGN, citation=FOREIGN, source=FOREIGN)
    for name, text in files(Site([named], [FOREIGN])):
        if name.endswith(".html"):
            page = Reader(text)
            assert "<script>document" not in text and page.broken == [], name
            assert FOREIGN in "".join(page.words)


def test_the_wall_is_small(folder: Path) -> None:
    assert (folder / "index.html").stat().st_size < MOST


def test_equal_sites_are_equal_bytes(folder: Path, site: Site) -> None:
    assert dict(files(site)) == {
        str(path.relative_to(folder)): path.read_text(encoding="utf8") for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("view", ["both", "ours", "paper", "delta", "every"])
def test_every_table_with_verdicts_has_its_radios(folder: Path, view: str) -> None:
    page = pages(folder)["tables/S3.html"]
    assert len(page.all("input", type="radio", **{"class": f"show-{view}"})) == 1


WHY = "18 of 18 runs never beat their first evaluation or no training"
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
def signal_site(ledger: Ledger) -> Site:
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


def test_the_site_and_the_report_say_so(ledger: Ledger, signal_site: Site) -> None:
    pages = dict(files(signal_site))
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
    """E8 rises to 61 under [CLS]: no signal where the untrained [CLS] has 60.7 or 62, not the untrained mean."""
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        train(ledger, small("E8"), 3, lambda run: 61.0 + noise(run, 0.03))
        dev = ledger.runs()[0].identity["dev"]
        for untrained, word in ((62.0, "no signal"), (60.7, "no signal"), (51.5, "tie")):
            scores = {"untrained [CLS]": untrained, "untrained mean": 113.5 - untrained}
            ledger.store_baselines([Baselines("sts_dev", "words-l4-h128", "wiki", 512, {"suite": dev}, scores)])
            words = {verdict.word for verdict in page_of(small("E8"), ledger).verdicts.values()}
            assert words == {word, "reference"}


def test_the_wall_takes_the_scale_that_decides_most_then_the_larger(signal_site: Site) -> None:
    """Equal rows that learn are ties; of two scales that decide nothing the one with signal, then the larger."""
    (sheet,) = [sheet for sheet in signal_site.published if sheet.id == "E8"]
    assert [(scale.name.partition("=")[2], scale.decided) for scale in sheet.scales] == [
        ("320", 4), ("1280", 0), ("640", 0), ("", 0),
    ]  # fmt: skip
    assert '<li class="badge ">counted: small, 4 layers, 320 sentences</li>' in wall(signal_site)


def test_a_paper_that_decides_stands_before_one_with_more_values_without_signal(signal_site: Site) -> None:
    """Six values of D7, none of which has signal, and five of E8."""
    sheets = {sheet.id: sheet for sheet in signal_site.published}
    two = replace(signal_site, sheets=[sheets["D7"], replace(sheets["E8"], scales=sheets["E8"].scales[:1])])
    assert [len(sheet.verdicts) for sheet in two.sheets] == [6, 5]
    assert [listed[0].id for listed in two.papers.values()] == ["E8", "D7"]


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
