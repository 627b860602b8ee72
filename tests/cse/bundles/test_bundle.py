"""`cse bundle` and `cse import` as a person types them: equal tables from the file, and one line for each mistake."""

import gzip
import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cse.cli.app import main

pytestmark = pytest.mark.usefixtures("somewhere")

OLD = Path(__file__).parents[2] / "ledger_0_1_0"
SHIPPED = Path(__file__).parents[3] / "docs" / "results" / "bundles"
SWEEP = "E7 train.evaluations=2 train.examples=640"
RUN = "1817a95ef38465e829ec1a0c"
FOLDER = "host:/home/user/e7/results/runs/1817a95ef38465e829ec1a0c/final/best"
WITHOUT = (
    "cosines behind 16 scores, whose files are not here; pages of the file will not compare rows by sentence pairs"
)
Said = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; what it printed, and its lines on stderr."""

    def called(*argv: str, code: int = 0) -> tuple[str, list[str]]:
        assert main(argv) == code
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return out, err.strip().splitlines()

    return called


def lay(name: str) -> None:
    """A ledger of version 0.1.0 where commands look for one; the folders of its runs are not here."""
    Path("results").mkdir()
    Path("results/ledger.db").write_bytes(gzip.decompress((OLD / f"{name}.db.gz").read_bytes()))
    shutil.copy(OLD / f"{name}_baselines.json", "results/baselines.json")


@pytest.fixture
def e7(said: Said) -> Path:
    """A bundle of E7's runs; no ledger is here any more."""
    lay("e7")
    out, err = said("bundle", "E7", "--to", "e7.jsonl.gz")
    size = Path("e7.jsonl.gz").stat().st_size
    assert out == f"wrote e7.jsonl.gz: 16 runs of 1 sweep, 32 points of curves, 16 scores; {size:,} bytes\n"
    assert err == [f"cse: left out: the {WITHOUT}"] and size < 10_000
    shutil.rmtree("results")
    return Path("e7.jsonl.gz")


@pytest.mark.parametrize(("name", "words"), [("e7", (SWEEP,)), ("demo", ("demo",))])
def test_tables_from_a_bundle_are_equal_to_the_digit(said: Said, name: str, words: tuple[str, ...]) -> None:
    lay(name)
    before = {form: said("table", *words, "--format", form) for form in ("md", "json", "csv")}
    assert said("bundle", "all", "--to", "first.jsonl.gz")[0].startswith("wrote first.jsonl.gz: ")
    shutil.rmtree("results")
    for count in ("imported", "already there"):
        number = {"e7": 16, "demo": 12}[name]
        assert f"{number} {count}" in said("import", "first.jsonl.gz")[0].replace("runs ", "")
        assert {form: said("table", *words, "--format", form) for form in before} == before
    lines = [line for line in before["md"][0].splitlines() if line.startswith("|")]
    assert lines == (OLD / f"{name}.md").read_text(encoding="utf8").splitlines()
    said("bundle", "all", "--to", "second.jsonl.gz")
    assert Path("first.jsonl.gz").read_bytes() == Path("second.jsonl.gz").read_bytes()


def test_a_sweep_goes_on_from_imported_runs(said: Said, data_dir: Path) -> None:
    out, _ = said("import", str(SHIPPED / "words_rates.jsonl.gz"))
    assert " runs imported, 0 already there  (ledger sqlite:////" in out
    out, _ = said("run", "rate_simcse3", "--data", str(data_dir), "--yes")
    assert out.startswith("12/12 already in the ledger, 0 run")


def test_what_is_behind_an_imported_cell(said: Said, e7: Path) -> None:
    said("import", str(e7))
    source = f"imported from e7.jsonl.gz ({json.loads(header(e7))['sha256'][:12]}); its checkpoint lies at {FOLDER}"
    # The sweep's file is that of another machine, and its space is one of ours.
    out, _ = said("explain", SWEEP, "--cell", "dup_rate=0.08")
    assert f"seed 0: {source}\n" in out and "commit c40a08e06b10" in out and "no run: seed 1" not in out
    found = json.loads(said("explain", SWEEP, "--cell", "dup_rate=0.08", "--format", "json")[0])
    assert found["runs"][0]["source"] == source and found["runs"][0]["checkpoint"] is None
    assert found["cost"]["attempts"] == 2
    assert "imported from e7.jsonl.gz\n" in said("trials", SWEEP)[0]
    assert "51.21" in said("best", SWEEP)[0]
    for command in (("export", RUN[:12], "--to", "out"), ("eval", RUN[:12])):
        _, err = said(*command, code=2)
        assert err == [f"cse: run without files: run={RUN} was {source}; name a copy of that folder"]


def header(file: Path) -> bytes:
    with gzip.open(file) as lines:
        return lines.readline()


def test_files_of_imported_runs_are_left_alone(said: Said, e7: Path) -> None:
    """A folder of a run's name may be here, of another ledger's attempt."""
    said("import", str(e7))
    best = Path("results/runs", RUN, "attempt-1", "best")
    best.mkdir(parents=True)
    (best / "weights").write_bytes(b"0" * 1000)
    out, _ = said("clean", "--keep-top", "1", "--disk-quota", "1KB", "--delete")
    assert out.startswith("0 MB freed of") and best.is_dir()


def test_a_conflict_is_one_line_and_nothing_is_written(said: Said, e7: Path) -> None:
    lines = gzip.decompress(e7.read_bytes()).splitlines(keepends=True)
    changed = [line.replace(b"50.734478072903016", b"50.75") for line in lines]
    write(Path("other.jsonl.gz"), changed)
    said("import", str(e7))
    before = said("trials", "--format", "json")
    out, (line,) = said("import", "other.jsonl.gz", code=2)
    assert out == "" and line == (
        f"cse: two results: signature={RUN} seed=0 has best=50.734478072903016 here and 50.75 in other.jsonl.gz; "
        "nothing was imported, give the file a ledger of its own with --ledger and compare the two"
    )
    assert said("trials", "--format", "json") == before
    out, _ = said("import", "other.jsonl.gz", "--ledger", "theirs.db")
    assert out.startswith("16 runs imported")


def write(file: Path, lines: list[bytes]) -> None:
    """A bundle of these lines, whose header fits them."""
    fields = json.loads(lines[0]) | {"sha256": hashlib.sha256(b"".join(lines[1:])).hexdigest()}
    file.write_bytes(gzip.compress(f"{json.dumps(fields)}\n".encode() + b"".join(lines[1:])))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bundle", "E77", "--to", "a.jsonl.gz"), "unknown sweep: sweep=E77; did you mean E7?"),
        (("bundle", "E8", "--to", "a.jsonl.gz"), "no runs yet: sweep=E8; cse run E8 starts them"),
        (("bundle", "E7", "--to", "a.zip"), "unknown format: --to=a.zip; end the name in .jsonl.gz"),
        (
            ("bundle", "E7", "--to", "a.csv"),
            "unknown format: --to=a.csv; end the name in .jsonl.gz, or read scores with cse.frames in Python (commit",
        ),
        (("bundle", "E7", "--to", "none/a.jsonl.gz"), "no file: --to=none/a.jsonl.gz is in no folder that exists; "),
        (("import", "none.jsonl.gz"), "no such file: file=none.jsonl.gz; name a bundle (cse bundle writes one)"),
        (("import", "results"), "no such file: file=results; name a bundle (cse bundle writes one)"),
        (("import", "results/baselines.json"), "no bundle: file=results/baselines.json is no gzip file; "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_line(said: Said, words: tuple[str, ...], told: str) -> None:
    lay("e7")
    out, (line,) = said(*words, code=2)
    assert out == "" and line.startswith(f"cse: {told}")
    assert len(said("trials")[0].splitlines()) == 17
    assert sorted(path.name for path in Path().iterdir()) == ["results"]


def test_without_a_ledger_or_ended_runs_nothing_is_bundled(said: Said) -> None:
    assert said("bundle", "all", "--to", "a.jsonl.gz", code=2)[1][0].startswith("cse: no ledger yet: --ledger=")
    lay("e7")
    said("import", "none.jsonl.gz", "--ledger", "empty.db", code=2)
    assert not Path("empty.db").exists()


def test_a_damaged_bundle_makes_no_ledger(said: Said, e7: Path) -> None:
    whole = e7.read_bytes()
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"\0" * 10**6) for _ in range(70)) + packer.flush()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    older = [lines[0].replace(b'"version":1', b'"version":0'), *lines[1:]]
    for content, told in (
        (
            whole[:-100],
            "damaged bundle: file=e7.jsonl.gz ends early or is broken; fetch it again, or have it made again",
        ),
        (gzip.compress(b"".join(lines).replace(b"esimcse", b"simcse")), "damaged bundle: file=e7.jsonl.gz sha256="),
        (gzip.compress(b"".join(older)), "bundle version: version=0 of file=e7.jsonl.gz, this cse-search reads 1; "),
        (bomb, "bundle too large: file=e7.jsonl.gz unpacks to more than 16,000,000 bytes, or a line of it"),
    ):
        e7.write_bytes(content)
        out, (line,) = said("import", str(e7), code=2)
        assert out == "" and line.startswith(f"cse: {told}")
    assert not Path("results").exists()
