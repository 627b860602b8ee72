"""`cse import csv` and `cse import wandb`: a row for each run or seed; public seeds beside the published rows."""

import csv
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from analysis.ledger import Ledger
from cse.cli.app import main
from cse.importers.sources.wandb import records
from tests.commands import printed

PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data" / "public_runs" / "simple_simcse"
needs_public = pytest.mark.skipif(not PUBLIC.is_dir(), reason="no ../shared/data/public_runs beside the checkout")
FILES = {
    "bert-base-uncased": ("S8", "SimCSE-BERT-base"),
    "bert-large-uncased": ("E2", "SimCSE-BERT large"),
    "roberta-base": ("S8", "SimCSE-RoBERTa-base"),
    "roberta-large": ("S8", "SimCSE-RoBERTa-large"),
}
COLUMNS = {"stsb": "sts_test", "sick": "sickr_test", "avg": "avg", **{f"sts{n}": f"sts{n}" for n in range(12, 17)}}
ARMS = "model,seed,sts,loss,note\n" + "".join(
    f"{model},{seed},{base + seed / 10},{losses[seed]},\n"
    for model, base, losses in (("simcse", 75.0, (0.30, 0.31, 0.29)), ("mine", 76.0, (0.20, 0.20, 0.23)))
    for seed in range(3)
)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def take(tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What an import of this text prints, to stdout and to stderr."""

    def taken(text: str, *words: str, rc: int = 0, encoding: str = "utf8") -> tuple[str, str]:
        file = tmp_path / "runs.csv"
        file.write_text(text, encoding=encoding)
        assert main(["import", "csv", str(file), "--ledger", ledger, *words]) == rc
        said = capsys.readouterr()
        return said.out, said.err

    return taken


def rows_of(ledger: str, sweep: str) -> list[tuple[int, float | None]]:
    return sorted((run.seed, run.best) for run in Ledger.open(ledger).runs(sweep=sweep))


def show(capsys: pytest.CaptureFixture[str], *words: str, rc: int = 0) -> str:
    assert main(list(words)) == rc
    return capsys.readouterr().out


def test_a_row_of_means_is_no_seed(take: Callable[..., tuple[str, str]], ledger: str) -> None:
    """It counted as one more seed: 81.50 ± 0.50 of three."""
    means = "lr,seed,sts\n" + "".join(f"{lr},{seed},{80 + 10 * lr}\n" for lr in (0.1, 0.2) for seed in (0, 1, "mean"))
    _, error = take(means, "--as", "x", "--score", "sts", rc=2)
    advice = "take out rows that are no runs, or name another column with --seed"
    assert error == f"cse: no seed: seed=mean of row 4 is beside seeds that are numbers; {advice}\n"
    take(means.replace("mean", "3735928559"), "--as", "y", "--score", "sts")
    assert [seed for seed, _ in rows_of(ledger, "y")] == [0, 0, 1, 1, 2, 2]


def test_seeds_in_words_keep_their_numbers(take: Callable[..., tuple[str, str]], ledger: str) -> None:
    """They were counted in the order of the rows, so that seeds of two rows were paired crosswise."""
    _, error = take("lr,seed,sts\n0.1,s1,81\n0.1,s2,82\n0.2,s2,84\n0.2,s1,83\n", "--as", "x", "--score", "sts")
    assert rows_of(ledger, "x") == [(1, 81.0), (1, 83.0), (2, 82.0), (2, 84.0)] and "no seed" not in error


def test_a_name_of_every_run_is_told(take: Callable[..., tuple[str, str]], ledger: str) -> None:
    """As in a table that W&B's page exports: the name keeps seeds of one setting apart."""
    text = "Name,lr,seed,sts\n" + "".join(f"run-{n},{n // 2},{n % 2},{80 + n}\n" for n in range(4))
    said, _ = take(text, "--as", "x", "--score", "sts")
    assert "told apart by Name, lr; Name differs in every run: --drop Name if it is a name, so that seeds meet" in said
    said, _ = take(text, "--as", "y", "--score", "sts", "--drop", "Name")
    assert "2 cells, told apart by lr\n" in said


def test_a_random_state_is_a_seed_and_capitals_are_no_other_value(
    take: Callable[..., tuple[str, str]], ledger: str
) -> None:
    text = "use_x,random_state,sts\nTrue,0,81\nTRUE,1,82\ntrue,2,83\nfalse,0,81\nFALSE,1,82\n"
    said, _ = take(text, "--as", "x", "--score", "sts")
    assert "2 cells, told apart by use_x" in said
    assert [seed for seed, _ in rows_of(ledger, "x")] == [0, 0, 1, 1, 2]


def test_arms_with_seeds_go_through_every_command(
    take: Callable[..., tuple[str, str]], ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take(ARMS, "--as", "arms", "--metric", "sts:max:0-100", "--metric", "loss:min:0-1")
    at = ("--ledger", ledger)
    plain = json.loads(show(capsys, "table", "arms", "--format", "json", *at))
    cells = {row["key"]["model"]: row["cells"] for row in plain["rows"]}
    assert cells["mine"]["best"]["values"] == [76.0, 76.1, 76.2] and cells["mine"]["best"]["seeds"] == [0, 1, 2]
    assert cells["simcse"]["loss"]["mean"] == pytest.approx(0.3)
    assert cells["mine"]["loss"]["best_of"]["seeds"] == [1, 3], "the metric that counts is the dev score of the others"
    sides = ("arms:model=mine", "--against", "arms:model=simcse")
    assert show(capsys, "gate", *sides, *at).startswith("better: sts +1.00 (")
    assert show(capsys, "gate", *sides, "--column", "loss", *at, rc=4).startswith("more-seeds "), "asked a second time"
    assert show(capsys, "gate", sides[2], "--against", sides[0], *at, rc=3).startswith("worse: sts -1.00 (")
    assert "3 seeds" in show(capsys, "compare", sides[0], sides[2], *at)
    told = show(capsys, "explain", "arms", "--cell", "model=mine", *at)
    assert "loss: best of 1, 3 seeds by dev: 0.2100" in told and "imported from csv" in told
    assert "pick: model=mine" in show(capsys, "best", "arms", *at)
    show(capsys, "report", "arms", "--out", str(tmp_path / "report"), *at)
    assert "76.1" in (tmp_path / "report" / "index.html").read_text(encoding="utf8")


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", ", "])
def test_a_table_again_reordered_and_wider_brings_no_run_twice(
    encoding: str, delimiter: str, take: Callable[..., tuple[str, str]], ledger: str
) -> None:
    rows = [f"{70 + n / 7},{n % 2},{'nan' if n == 4 else n}" for n in range(6)]
    words = ("--as", "w", "--metric", "sts")
    first, _ = take("\n".join(["sts,arm,loss", *rows]).replace(",", delimiter), *words, encoding=encoding)
    assert first.startswith("6 runs imported, 0 already there")
    before = rows_of(ledger, "w")
    again, _ = take("\n".join(["sts,arm,loss", *reversed(rows)]).replace(",", delimiter), *words, encoding=encoding)
    wider = [f"{row},{n}" for n, row in enumerate(rows)]
    wide, _ = take("\n".join(["sts,arm,loss,time", *wider[::2], *wider[1::2]]).replace(",", delimiter), *words)
    more, _ = take("\n".join(["sts,arm", *(row.rpartition(",")[0] for row in rows), "79,1"]), *words)
    assert again.startswith("0 runs imported, 6 already there") and wide.startswith("0 runs imported, 6 already there")
    assert more.startswith("1 run imported, 6 already there") and rows_of(ledger, "w") == [*before, (3, 79.0)]


@pytest.mark.parametrize(
    ("metric", "values", "shown"),
    [
        ("acc:max:0-1", (0.80, 0.875), "0.8750"),
        ("acc:max:0-100", (80, 87.5), "87.50"),
        ("loss:min", (0.4, 0.3), "0.3000"),
        ("reward", (3, 7), "7.000"),
    ],
)
def test_every_list_tells_a_score_with_the_decimals_of_its_scale(
    take: Callable[..., tuple[str, str]],
    ledger: str,
    capsys: pytest.CaptureFixture[str],
    metric: str,
    values: tuple[float, float],
    shown: str,
) -> None:
    take("\n".join([metric.partition(":")[0], *map(str, values)]) + "\n", "--as", "w", "--metric", metric)
    for words in (("status",), ("status", "w"), ("trials",), ("trials", "w"), ("best", "w")):
        assert re.search(rf" -?{shown}\s", show(capsys, *words, "--ledger", ledger)), words


def test_fifty_equal_rows_are_fifty_seeds_and_decide_nothing(
    take: Callable[..., tuple[str, str]], ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "avg,dev\n" + "76.25,80\n" * 50
    out, _ = take(text, "--as", "S8", "--row", "SimCSE-BERT-base")
    assert "50 runs imported" in out and "undecided" in out and "no setting has two seeds that differ" in out
    out, _ = take(text + "76.25,80\n", "--as", "S8", "--row", "SimCSE-BERT-base")
    assert "1 run imported, 50 already there" in out
    assert rows_of(ledger, "S8@imported") == [(seed, 80.0) for seed in range(51)]


def test_seeds_that_are_counted_are_no_common_seeds(
    take: Callable[..., tuple[str, str]], ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(line.replace(",seed", "").replace(f",{line.split(',')[1]},", ",", 1) for line in ARMS.splitlines())
    take(text.replace("seed,", ""), "--as", "arms", "--metric", "sts")
    said = show(capsys, "gate", "arms:model=mine", "--against", "arms:model=simcse", "--ledger", ledger)
    assert "none in common" in said and said.startswith("better: sts +1.00")


def test_a_seed_column_takes_the_place_of_numbers(take: Callable[..., tuple[str, str]], ledger: str) -> None:
    text = "arm,draw,sts\na,11,70\na,12,71\nb,11,72\n"
    take(text, "--as", "w", "--metric", "sts", "--rename", "draw=train.draw")
    take(text, "--as", "v", "--metric", "sts", "--seed", "draw")
    assert rows_of(ledger, "w") == [(0, 70.0), (0, 71.0), (0, 72.0)]
    assert rows_of(ledger, "v") == [(11, 70.0), (11, 72.0), (12, 71.0)]


def test_where_a_run_came_from_stays_known(take: Callable[..., tuple[str, str]], tmp_path: Path, ledger: str) -> None:
    import hashlib

    take(ARMS, "--as", "arms", "--metric", "sts", "--about", "example.org, batch 64", "--licence", "MIT")
    opened = Ledger.open(ledger)
    details = [rows[-1].details for rows in opened.provenance([run.signature for run in opened.runs()]).values()]
    sha256 = hashlib.sha256((tmp_path / "runs.csv").read_bytes()).hexdigest()
    assert sorted(each["row"] for each in details) == [2, 3, 4, 5, 6, 7]
    kept = {(each["sha256"], each["about"], each["licence"], each["source"]) for each in details}
    assert kept == {(sha256, "example.org, batch 64", "MIT", f"csv {tmp_path / 'runs.csv'}")}
    assert {source.hash for source in opened.imports().values()} == {sha256}


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (ARMS, ("--metric", "stts"), "no such score: score=stts; did you mean sts?"),
        (ARMS, ("--metric", "sts", "--metric", "los"), "no such metric: metric=los; did you mean loss?"),
        (ARMS, ("--metric", "sts", "--metric", "sts:min"), "two metrics of one name: metric=sts; give it once"),
        (ARMS, ("--metric", "sts:max:5-5"), "wrong range: metric=sts:max:5-5 has no width; write --metric NAME"),
        (ARMS, ("--metric", "loss"), "no direction: score=loss; give --better lower"),
        (ARMS, ("--metric", "loss:min", "--better", "higher"), "two directions: --better=higher of score=loss"),
        (ARMS, ("--metric", "sts", "--seed", "sed"), "no such name: seed=sed; did you mean seed?"),
        (ARMS, ("--metric", "sts", "--seed", "model"), "no seed: model=simcse of row 2"),
        (ARMS + "mine,2,99,0.1,\n", ("--metric", "sts"), "one seed twice: seed=2 of model=mine has sts 76.2 and 99 "),
        ("sts,sts\n1,2\n", ("--metric", "sts"), "wrong header: "),
        ("sts;x\n70,5;1\n", ("--metric", "sts"), "score is no number: score=sts has '70,5'"),
        ("sts\n", ("--metric", "sts"), "no finished runs: source="),
        (ARMS, (), "nothing given: --score KEY; give it too"),
        (ARMS, ("--row", "SimCSE-BERT-base"), "unknown space: space=w"),
    ],
)
def test_each_mistake_is_one_line(
    text: str, words: Sequence[str], line: str, take: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    _, err = take(text, "--as", "w", *words, rc=2)
    assert err.startswith(f"cse: {line}") and err.count("\n") == 1 and not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("avg,dev\n0.75,0.8\n0.76,0.8\n", (), "another unit: avg=0.76 at most, and the paper prints 76.25;"),
        ("avg,average\n75,76\n", (), "two metrics of one name: avg and average are both sts;"),
        ("x,y\n75,76\n", (), "no column of S8: the file has x, y; give --rename NAME=COLUMN"),
        ("avg,rate\n75,a\n76,b\n", (), "several configurations: runs of one row differ in rate;"),
        ("avg\n75\n", ("--row", "SimCSE-BERT-bas"), "no such cell: cell=SimCSE-BERT-bas;"),
    ],
)
def test_each_mistake_about_a_row_is_one_line(
    text: str, words: Sequence[str], line: str, take: Callable[..., tuple[str, str]]
) -> None:
    _, err = take(text, "--as", "S8", *(words or ("--row", "SimCSE-BERT-base")), rc=2)
    assert err.startswith(f"cse: {line}") and err.count("\n") == 1


def test_the_runs_of_two_sources_are_not_pooled_in_a_row(take: Callable[..., tuple[str, str]], ledger: str) -> None:
    row = ("--row", "SimCSE-BERT-base")
    take("avg\n75.1\n75.2\n", "--as", "S8", *row)
    _, err = take("avg\n74.1\n74.2\n", "--as", "S8", *row, rc=2)
    assert err.startswith("cse: two sources: --as S8@imported has 2 runs of this row from elsewhere;")
    take("avg\n74.1\n74.2\n", "--as", "S8@second", *row)
    assert rows_of(ledger, "S8@second") == [(0, 74.1), (1, 74.2)]


def word_of(values: Sequence[float], published: float) -> str:
    """The rule of docs/verdicts.md at the paper's own scale, written down again, for the eight values of a row."""
    mean, sd, n = statistics.fmean(values), statistics.stdev(values), len(values)
    reach = float(scipy.stats.t.ppf(1 - 0.05 / 8 / 2, n - 1)) * sd * math.sqrt(1 + 1 / n)
    return "different" if abs(published - mean) - 0.005 > reach else "one seed could give it"


@needs_public
@pytest.mark.parametrize("name", FILES)
def test_fifty_public_seeds_beside_the_published_row(
    name: str, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Means and deviations are numpy's, and all eight words those of the documented rule."""
    file, (table, row) = PUBLIC / f"{name}.csv", FILES[name]
    words = ("--about", "https://github.com/hppRC/simple-simcse, batch 64, rate 3e-5", "--licence", "MIT")
    said = show(capsys, "import", "csv", str(file), "--as", table, "--row", row, *words, "--ledger", ledger)
    assert "another implementation: https://github.com/hppRC/simple-simcse, batch 64, rate 3e-5 (licence MIT)" in said
    rows = list(csv.DictReader(file.open(encoding="utf8")))
    plain = json.loads(show(capsys, "table", f"{table}@imported", "--format", "json", "--ledger", ledger))
    (cells,) = (each["cells"] for each in plain["rows"] if each["cells"]["avg"]["n"])
    verdicts = {each["column"]: each["word"] for each in plain["verdicts"]}
    for theirs, column in COLUMNS.items():
        values = np.array([float(each[theirs]) for each in rows])
        entry = cells[column]
        assert entry["n"] == 50 and entry["values"] == values.tolist()
        assert entry["mean"] == pytest.approx(values.mean(), abs=1e-9)
        assert entry["sd"] == pytest.approx(values.std(ddof=1), abs=1e-9)
        assert verdicts[column] == word_of(values.tolist(), entry["published"])
        assert entry["best_of"]["seeds"] == [1, 3, 5, 10]
    if name == "bert-base-uncased":
        assert cells["avg"]["best_of"]["expected"] == pytest.approx([75.1, 75.6, 75.8, 76.0], abs=0.1)
        assert cells["avg"]["best_of"]["for_published"] == 20
    if name == "roberta-base":
        assert cells["avg"]["best_of"]["for_published"] is None and "above every one of them" in said


@pytest.mark.slow
def test_the_site_shows_imported_sweeps_and_rows_of_published_tables(
    take: Callable[..., tuple[str, str]], ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take(ARMS, "--as", "arms", "--metric", "sts:max:0-100")
    take("avg,dev\n70.1,80\n70.2,81\n70.4,80.5\n", "--as", "S8", "--row", "SimCSE-BERT-base", "--about", "example.org")
    show(capsys, "site", "--to", str(tmp_path / "site"), "--ledger", ledger)
    site = json.loads((tmp_path / "site" / "site.json").read_text(encoding="utf8"))
    (table,) = (each for each in site["tables"] if each["id"] == "S8")
    assert table["verdicts"]["different"] == 1 and "S8@imported" in table["scales"][0]["scale"]
    assert "another implementation: example.org" in _page(tmp_path, "S8") and "76.1" in _page(tmp_path, "arms")


def _page(folder: Path, id: str) -> str:
    (file,) = (folder / "site").rglob(f"{id}.html")
    return file.read_text(encoding="utf8")


def test_thirty_signatures_with_commas_are_no_file(
    take: Callable[..., tuple[str, str]], ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No name of a file may have 375 letters, and the system's refusal was taken for an answer."""
    arms = ((arm, seed, 0.6 + (arm == "b") * 0.03 + seed % 4 / 1000) for arm in "ab" for seed in range(15))
    take("arm,seed,sts\n" + "".join(f"{arm},{seed},{sts}\n" for arm, seed, sts in arms), "--as", "w", "--metric", "sts")
    runs = Ledger.open(ledger).runs(sweep="w")
    a, b = (",".join(run.signature for run in runs if run.config["arm"] == arm) for arm in "ab")
    assert len(a) > 370 and show(capsys, "gate", a, "--against", b, "--ledger", ledger, rc=3).startswith(
        "worse: sts -0.03"
    )
    plain = json.loads(show(capsys, "table", "w", "--format", "json", "--ledger", ledger))
    assert plain["columns"] == ["best"], "the score that counts stands once"


CONFIG = {"method": "simcse", "train": {"learning_rate": 3e-5, "seed": 3}, "layers": [1, 2], "_wandb": {"x": 1}}


def imported(source: object, ledger: str, *words: str, score: str = "eval/sts") -> int:
    return main(["import", "wandb", str(source), "--as", "w", "--score", score, "--ledger", ledger, *words])


def test_an_exported_list_of_runs(tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        {"id": "a", "state": "finished", "config": CONFIG, "summary": {"eval/sts": 70.5, "_step": 4, "note": "x"}},
        {"id": "b", "state": "crashed", "config": CONFIG, "summary": {"eval/sts": 1.0}},
        {"id": "c", "state": "finished", "config": CONFIG, "summary": {"loss": 0.1}},
        {"id": "d", "state": "finished", "config": CONFIG, "summary": {"eval/sts": "NaN"}},
    ]
    file = tmp_path / "runs.json"
    file.write_text(json.dumps(runs), encoding="utf8")
    assert imported(file, ledger) == 0
    said = capsys.readouterr()
    assert "1 run imported" in said.out and said.err.splitlines() == [
        "cse: left out: runs: 1 not finished (1 crashed), 2 without eval/sts; import again when they have ended",
        "cse: left out: texts: note; --rename NAME=KEY takes one as a setting",
    ]
    (run,) = Ledger.open(ledger).runs()
    assert (run.method, run.seed, run.best, run.state) == ("simcse", 3, 70.5, "done")
    settings = {"method": "simcse", "train.learning_rate": 3e-5, "train.seed": 3, "layers": "[1, 2]"}
    assert run.config == {"train.dev": "eval/sts", **settings} and run.identity == {"imported": "wandb"}
    assert imported(file, ledger) == 0
    assert "0 runs imported, 1 already there" in capsys.readouterr().out


def test_the_tables_that_the_web_page_and_pandas_write(tmp_path: Path, ledger: str) -> None:
    flat = tmp_path / "page.csv"
    flat.write_text(
        "Name,State,ID,train.learning_rate,method,eval/sts\nn,finished,a,1e-05,simcse,70.5\nm,running,b,1e-05,simcse,9\n",
        encoding="utf8",
    )
    frame = tmp_path / "project.csv"
    frame.write_text(f',summary,config,name\n0,"{{\'eval/sts\': 71.5}}","{CONFIG}",n\n', encoding="utf8")
    assert imported(flat, ledger) == 0 and imported(frame, ledger) == 0
    rows = sorted(Ledger.open(ledger).runs(), key=lambda run: run.best or 0.0)
    assert [(run.best, run.config["train.learning_rate"]) for run in rows] == [(70.5, 1e-5), (71.5, 3e-5)]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("runs.json", "{", "unreadable table: source=PATH ("),
        ("runs.json", '{"a": 1}', "unreadable table: source=PATH (it is no list of runs); export it again"),
        ("runs.csv", "a,eval/sts\n1,x\n", "score is no number: score=eval/sts has 'x'; "),
        ("runs.csv", "a,eval/st\n1,2\n", "no such score: score=eval/sts; "),
        ("runs.json", "[]", "no finished runs: source=PATH; name another source or --study"),
        ("folder/x.txt", "", "no runs: source=PATH has no file *.wandb"),
        ("folder/x.wandb", "text", "unreadable run: file=PATH/x.wandb (it does not begin as W&B's files do)"),
    ],
)
def test_each_mistake_about_wandb_is_one_line(
    name: str, text: str, line: str, tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.endswith(".wandb"):
        pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf8")
    place = file.parent if "/" in name else file
    assert imported(place, ledger) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cse: {line.replace('PATH', str(place))}") and said.count("\n") == 1


def test_a_loss_without_a_direction_is_refused_and_with_one_the_lower_wins(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.60 against 0.63 of a loss with a range of 1: better, by the values as W&B has them."""
    seeds = (0, 1, 2)
    arms = [(arm, seed, base + seed / 1000) for arm, base in (("a", 0.60), ("b", 0.63)) for seed in seeds]
    table = tmp_path / "runs.csv"
    table.write_text(
        "id,method.arm,train.seed,eval/loss\n"
        + "".join(f"{arm}{seed},{arm},{seed},{loss + seed * seed * 1e-4}\n" for arm, seed, loss in arms)
    )
    assert imported(table, ledger, score="eval/loss") == 2
    said = capsys.readouterr().err
    assert said == "cse: no direction: score=eval/loss; give --better lower, or --better higher\n"
    assert imported(table, ledger, "--better", "lower", "--scale", "1", score="eval/loss") == 0
    assert "the lower value is the better one; its range is 1 wide, and a tie within ±0.005" in capsys.readouterr().out
    runs = json.loads(printed(capsys, "trials", "w", "--ledger", ledger, "--format", "json"))["rows"]
    a, b = (",".join(run["signature"] for run in runs if run["config"]["method.arm"] == arm) for arm in "ab")
    assert printed(capsys, "gate", a, "--against", b, "--ledger", ledger).startswith("better: eval/loss -0.0300 (")
    assert main(["gate", b, "--against", a, "--ledger", ledger]) == 3
    said = printed(capsys, "best", "w", "--ledger", ledger).partition("the lower eval/loss is the better one\n")[2]
    assert said and "-0." not in said


def test_a_file_that_is_absent_is_one_line(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported("absent.csv", ledger) == 2
    assert capsys.readouterr().err.startswith("cse: no such file: source=absent.csv; name a folder of offline runs")


def test_without_the_package_a_folder_says_what_to_install(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.wandb").write_bytes(b":W&B\xe1\xbe\x00")
    monkeypatch.setitem(__import__("sys").modules, "wandb.proto.wandb_internal_pb2", None)
    assert imported(tmp_path, ledger) == 2
    assert capsys.readouterr().err.endswith("; pip install 'cse-search[wandb]'\n")


def test_records_over_several_blocks_are_joined_and_a_cut_end_is_left_out(tmp_path: Path) -> None:
    header, long = b":W&B\xe1\xbe\x00", bytes(range(256)) * 300

    def piece(kind: int, data: bytes) -> bytes:
        return b"\0\0\0\0" + len(data).to_bytes(2, "little") + bytes([kind]) + data

    first = 32 * 1024 - 7 - 7
    middle = 32 * 1024 - 7
    pieces = piece(2, long[:first]) + piece(3, long[first : first + middle]) + piece(4, long[first + middle :])
    file = tmp_path / "x.wandb"
    file.write_bytes(header + pieces + piece(1, b"next") + piece(1, b"cut")[:-1])
    assert list(records(file)) == [long, b"next"]


def test_runs_that_wandb_wrote_offline(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb: Any = pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
    settings = wandb.Settings(silent=True, console="off", mode="offline", x_disable_stats=True)
    for number, code in enumerate((0, 0, 1)):
        about = {"config": CONFIG | {"number": number}, "id": f"id{number}", "project": "p"}
        run = wandb.init(dir=str(tmp_path), reinit="create_new", settings=settings, **about)
        for step in range(3):
            run.log({"eval/sts": 60.0 + number + step, "loss": 1.0})
        run.finish(exit_code=code)
    assert imported(tmp_path / "wandb", ledger) == 0
    assert "2 runs imported" in capsys.readouterr().out
    runs = Ledger.open(ledger).runs()
    assert {run.config["number"]: run.best for run in runs} == {0: 62.0, 1: 63.0}
    assert {(run.method, run.seed, run.config["train.learning_rate"]) for run in runs} == {("simcse", 3, 3e-5)}
