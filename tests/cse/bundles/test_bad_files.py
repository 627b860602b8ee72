"""Files that are no bundles, or damaged, or too large, or hold what no ledger can take: one line each, nothing read."""

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, text

from analysis import bundles
from analysis.bundles import Bundle, BundleError
from analysis.ledger import Ledger, LedgerError, schema
from analysis.ledger.exchange.merge import RecordSource, merge
from cse.bundles.contents import gather, write
from tests.cse.bundles.conftest import filled


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("lab")
    ledger = filled(folder)
    write(folder / "lab.jsonl.gz", gather(ledger))
    ledger.close()
    return (folder / "lab.jsonl.gz").read_bytes()


@pytest.fixture
def file(content: bytes, tmp_path: Path) -> Path:
    (tmp_path / "lab.jsonl.gz").write_bytes(content)
    return tmp_path / "lab.jsonl.gz"


def lines_of(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def packed(file: Path, body: list[bytes], **header: Any) -> Path:
    """A bundle of these lines with a header that fits them, but for what is given."""
    counts: dict[str, int] = {}
    for line in body:
        kind = "run" if b'"kind":"run"' in line else "sweep"
        counts[kind] = counts.get(kind, 0) + 1
    digest = hashlib.sha256(b"".join(body)).hexdigest()
    fields = {"format": "cse-search bundle", "version": 1, "counts": counts, "sha256": digest} | header
    file.write_bytes(gzip.compress(f"{json.dumps(fields)}\n".encode() + b"".join(body)))
    return file


def refused(file: Path) -> str:
    with pytest.raises(BundleError) as error:
        list(Bundle(file).records())
    line = str(error.value)
    assert "\n" not in line and f"file={file}" in line
    return line


def test_what_is_no_bundle(tmp_path: Path) -> None:
    plain = tmp_path / "notes.txt"
    for content in (b"hello", b"\x1f\x8b", b"\x1f\x8bxxxxxxxxxxxxxxxx"):
        plain.write_bytes(content)
        assert refused(plain).split(":")[0] in ("no bundle", "damaged bundle")
    for content in (b"", b"hello\n", b"[1]\n", b'{"format":"zip"}\n', b"[" * 100_000, b"\xff\n"):
        plain.write_bytes(gzip.compress(content))
        assert refused(plain).startswith("no bundle: ")


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version(file: Path, version: object) -> None:
    packed(file, [], version=version)
    assert "this cse-search reads 1; use the cse-search that wrote it, or a newer one" in refused(file)


@pytest.mark.parametrize(
    "header",
    [{"counts": 3}, {"counts": {"trials": 1}}, {"counts": {"run": "1"}}, {"sha256": None}, {"author": "me"}],
    ids=str,
)
def test_a_header_that_somebody_changed(file: Path, header: dict[str, object]) -> None:
    assert refused(packed(file, [], **header)).startswith("broken header: ")


def test_a_body_that_is_not_what_the_header_says(file: Path) -> None:
    header, *body = lines_of(file)
    changed = b"".join([header, *body]).replace(b'"best":61.12', b'"best":62.12')
    file.write_bytes(gzip.compress(changed))
    assert refused(file).startswith("damaged bundle: ") and "its header says" in refused(file)
    assert "records=2, its header says 3;" in refused(packed(file, body[:2], counts={"run": 3}))


def test_a_file_that_ends_early_or_has_a_broken_byte(file: Path) -> None:
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], whole[:-8] + b"\0" * 8, whole + b"more"):
        file.write_bytes(content)
        assert refused(file).startswith("damaged bundle: ")
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    assert refused(file).startswith("damaged bundle: ")


def test_a_file_that_unpacks_to_more_than_the_limit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "LARGEST_UNPACKED", 10**6)
    file.write_bytes(gzip.compress(b"0" * 2_000_000))
    assert refused(file).startswith("bundle too large: ")
    packed(file, [b" " * 1023 + b"\n"] * 2_000)
    assert refused(file).startswith("bundle too large: ") and "unpacks to more than 1,000,000 bytes" in refused(file)
    monkeypatch.setattr(bundles, "LONGEST_RECORD", 1000)
    packed(file, [b" " * 1023 + b"\n"])
    assert refused(file).startswith("bundle too large: ")


Change = Callable[[dict[str, Any]], object]
RUNS: dict[str, tuple[Change, str]] = {
    "unknown column": (lambda run: run.update(colour="red"), "column='colour' is unknown"),
    "unknown column of a part": (lambda run: run["curve"][0].update(x=1), "curve: column='x' is unknown"),
    "missing column": (lambda run: run.pop("seed"), "column=seed is missing"),
    "unknown kind": (
        lambda run: run.update(kind="trial"),
        "kind='trial' is none of run, sweep, baselines, untrained, pairs",
    ),
    "text for a number": (lambda run: run.update(best="61"), "best='61' is not a number"),
    "yes for a number": (lambda run: run.update(seed=True), "seed=True is not a whole number"),
    "huge whole number": (lambda run: run.update(seed=2**31), "seed=2147483648 is not a whole number"),
    "huge number": (lambda run: run.update(best=10**400), "is not a number"),
    "number for a text": (lambda run: run.update(method=3), "method=3 is not a text"),
    "long text": (lambda run: run.update(signature="a" * 65), "is longer than 64 letters"),
    "nothing": (lambda run: run.update(signature=None), "signature=None is empty"),
    "unknown state": (lambda run: run.update(state="won"), "state='won' is none of claimed, running, done"),
    "nested setting": (lambda run: run["config"].update(a=[1]), "is not a JSON object of plain values"),
    "metric in words": (lambda run: run["curve"][0]["metrics"].update(loss="low"), "is not a JSON object of numbers"),
    "part that is no list": (lambda run: run.update(scores={}), "scores: is not a list"),
    "part that is no object": (lambda run: run.update(scores=[3]), "scores: 3 is not a JSON object"),
    "one point twice": (lambda run: run["curve"].append(run["curve"][0]), "curve: does not ascend by examples"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_record_that_no_ledger_can_take(file: Path, name: str) -> None:
    change, told = RUNS[name]
    record = json.loads(lines_of(file)[1])
    change(record)
    line = refused(packed(file, [f"{json.dumps(record)}\n".encode()]))
    assert line.startswith("wrong record: ") and "line=2" in line and told in line


def test_a_description_of_a_sweep_that_no_command_can_read(file: Path) -> None:
    sweep = json.loads(lines_of(file)[6])
    sweep["spec"]["blocked"] = 3
    assert "has a blocked that is no dict" in refused(packed(file, [f"{json.dumps(sweep)}\n".encode()]))


@pytest.mark.parametrize(("number", "told"), [("NaN", "NaN"), ("-Infinity", "-Infinity"), ("1e999", "1e999")])
def test_numbers_that_are_not_finite(file: Path, number: str, told: str) -> None:
    line = lines_of(file)[1].replace(b'"best":0.30000000000000004', f'"best":{number}'.encode())
    assert f"line=2 has the number {told}, which is not finite" in refused(packed(file, [line]))


def test_lines_that_are_no_json(file: Path) -> None:
    run = lines_of(file)[1]
    for line in (b'"kind":"run"\n', b"\n", b'{"a":' * 100_000, b"\xff\xfe\n", run.replace(b"simcse", b"\\ud800")):
        assert "line=2 is no JSON" in refused(packed(file, [line]))


def test_records_out_of_order_or_twice(file: Path) -> None:
    first, second = lines_of(file)[1:3]
    for body in ([second, first], [first, first]):
        assert "line=3 does not ascend by its key" in refused(packed(file, body))


def test_a_wrong_record_at_the_end_leaves_the_ledger_as_it_was(file: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "other.db")
    with pytest.raises(BundleError, match="line=7"):
        merge(ledger, Bundle(packed(file, [*lines_of(file)[1:6], b"{}\n"])).records(), RecordSource("lab", "0" * 64))
    assert ledger.runs() == [] and ledger.history("done0") == []


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        (schema.curves, "step", "a whole number"),
        (schema.curves, "seconds", "a number"),
        (schema.history, "at", "a number"),
        (schema.provenance, "seconds", "a number"),
    ],
)
def test_a_row_that_somebody_edited_is_not_written(
    lab: Ledger, tmp_path: Path, table: Table, column: str, kind: str
) -> None:
    with lab._engine.begin() as connection:
        connection.execute(table.update().values({column: text("'first'")}))
    with pytest.raises(BundleError, match=rf"ledger row: \w+: {column}='first' is not {kind}"):
        write(tmp_path / "lab.jsonl.gz", gather(lab))
    assert list(tmp_path.glob("*lab.jsonl.gz*")) == []


def test_a_run_that_somebody_edited_stands_in_no_list(lab: Ledger) -> None:
    with lab._engine.begin() as connection:
        connection.execute(schema.runs.update().values(state="won"))
    assert lab.runs() == []
    with pytest.raises(LedgerError, match="cse_runs"):
        lab.runs(sweep="A")


def test_a_record_that_is_nested_deep(file: Path) -> None:
    sweep = json.loads(lines_of(file)[6])
    for depth in (30, 41, 500, 900):
        sweep["spec"]["note"] = "PLACE"
        line = json.dumps(sweep).replace('"PLACE"', '{"a":' * depth + "1" + "}" * depth)
        packed(file, [f"{line}\n".encode()])
        if depth == 30:
            assert len(list(Bundle(file).records())) == 1
        else:
            assert "line=2 is nested more than 40 deep" in refused(file)
