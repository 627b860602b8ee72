"""`cse eval` and `cse embed` on checkpoints made by hand; nothing here needs Ray."""

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.ledger import Ledger
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from tests.commands import printed, refused
from tests.documents import validated
from tests.run_values import book_run

pytestmark = pytest.mark.usefixtures("somewhere")

SIGNATURE = "abcdef0123456789"


@pytest.fixture
def run(somewhere: Path) -> Path:
    """A finished run of the ledger with its best checkpoint."""
    flat = {
        "method": "simcse",
        "method.pooler": "mean",
        "train.encoder": "words-l1-h64",
        "train.dev": "generated_dev:20",
    }
    config = parse_run(flat)
    model = load_method("simcse").build(config.options, load_backbone("words-l1-h64"))
    folder = somewhere / "runs" / "one"
    checkpoint.save_best(folder, config, model, {})
    ledger = Ledger.open(somewhere / "results" / "ledger.db")
    book_run(ledger, SIGNATURE, config.flat(), method="simcse", folder=str(folder))
    return folder


def stored(somewhere: Path) -> dict[str, tuple[float, dict, str | None]]:
    rows = Ledger.open(somewhere / "results" / "ledger.db").scores([SIGNATURE])
    return {row.suite: (row.value, dict(row.protocol.facts), row.cosines_file) for row in rows}


def test_each_number_comes_with_its_protocol_in_every_form(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    argv = ("eval", str(run), "--suite", "generated_dev:20,generated_dev:30", "--suite", "generated_dev:20")
    records = validated("eval", printed(capsys, *argv, "--format", "json"))["rows"]
    assert [record["suite"] for record in records] == ["generated_dev:20", "generated_dev:30"]
    assert records[0]["protocol"]["pooler"] == "mean" and records[0]["details"]["pairs"] == 20
    text, md = printed(capsys, *argv), printed(capsys, *argv, "--format", "md")
    for said in (text, md):
        assert "protocol: pooler mean; aggregation all; split dev; max_length 512; precision fp32; case as is" in said
        assert all(f"{record['value']:.2f}" in said for record in records)
        assert all(record["protocol"]["data_hash"][:12] in said for record in records)
    assert md.splitlines()[:2] == ["| suite | metric | value | data_hash |", "| --- | --- | --: | --- |"]


def test_a_runs_scores_go_into_its_ledger_with_the_cosines(
    capsys: pytest.CaptureFixture[str], run: Path, somewhere: Path
) -> None:
    said = printed(capsys, "eval", SIGNATURE[:8], "--suite", "generated_dev:20", "--format", "json")
    (record,) = json.loads(said)["rows"]
    ((suite, (value, protocol, file)),) = stored(somewhere).items()
    assert (suite, value, protocol) == ("generated_dev:20", record["value"], record["protocol"])
    assert file is not None and Path(file).parent == run / "scores"
    assert np.load(file)["cosines"].shape == (20,)


def test_scores_under_other_settings_stay_out_of_the_ledger(
    capsys: pytest.CaptureFixture[str], run: Path, somewhere: Path
) -> None:
    for option in (("--pooler", "cls_no_mlp"), ("--max-length", "8"), ("--aggregation", "mean")):
        printed(capsys, "eval", str(run), "--suite", "generated_dev:20", *option)
    assert stored(somewhere) == {} and not (run / "scores").exists()
    printed(capsys, "eval", str(run), "--suite", "generated_dev:20", "--pooler", "cls_no_mlp", "--to", "kept")
    assert (somewhere / "kept" / "cosines-generated_dev-20.npz").is_file() and stored(somewhere) == {}


def test_other_suites_of_a_run_are_named_by_metric_and_rule(
    capsys: pytest.CaptureFixture[str], run: Path, somewhere: Path, data_dir: Path
) -> None:
    argv = ("eval", str(run), "--suite", "retrieval,geometry", "--data", str(data_dir), "--query", "a man is eating .")
    said = printed(capsys, *argv)
    assert "nearest to: a man is eating ." in said and "uniformity" in said
    names = stored(somewhere)
    assert "sts_test:recall@1 (exclude same text, ties against)" in names
    assert "sts_test:recall@1 (exclude index, ties against)" in names
    assert all(file is None for _, _, file in names.values())


def test_a_plain_encoder_and_what_is_none(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    suite = ("--suite", "generated_dev:20")
    assert "pooler first_last" in printed(capsys, "eval", "words-l1-h64", "--pooler", "first_last", *suite)
    assert refused(capsys, "eval", "words-l1-h64", *suite).startswith("cse: which pooler: ")
    assert refused(capsys, "eval", "words-l1-h64", "--pooler", "cls", *suite).startswith("cse: untrained pooler: ")
    assert refused(capsys, "eval", ".", *suite).startswith("cse: not a model: ")
    assert refused(capsys, "eval", "nothing", *suite).startswith("cse: no such run: ")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--suite", "sts_tset"), "unknown suite: suite=sts_tset; did you mean sts_test?"),
        (("--suite", "mr", "--protocol", "sentevl"), "unknown protocol: protocol=sentevl; did you mean senteval?"),
        (("--suite", "sts", "--aggregation", "men"), "unknown aggregation: aggregation=men; did you mean mean?"),
        (("--suite", "geometry", "--positives", "gold"), "unknown positives: positives=gold; valid: gold"),
        (("--suite", "sts"), "missing data: sts12 needs senteval/downstream; give --data DIR"),
    ],
)
def test_mistakes_are_one_line(option: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "eval", "words-l1-h64", "--pooler", "mean", *option).startswith(f"cse: {told}")


def test_embed_writes_a_row_a_line(capsys: pytest.CaptureFixture[str], run: Path, somewhere: Path) -> None:
    (somewhere / "in.csv").write_text('id,text\n1,a cat\n2,\n3,"a dog, too"\n', encoding="utf8")
    said = printed(capsys, "embed", str(run), "in.csv", "--column", "text", "--to", "out.npy")
    assert said == f"wrote {somewhere / 'out.npy'} (3 sentences, pooler mean, max_length 512)\n"
    assert np.load("out.npy").shape == (3, 64)
    assert refused(capsys, "embed", str(run), "in.csv", "--to", "o.npy").startswith("cse: which column: file=in.csv")
    assert refused(capsys, "embed", str(run), "no.txt", "--to", "o.npy").startswith("cse: no such file: file=no.txt")
    assert refused(capsys, "embed", str(run), "in.csv", "--to", "o.bin").startswith("cse: unknown format: to=o.bin")
