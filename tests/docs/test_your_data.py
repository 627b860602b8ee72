"""The page on one's own data says what works: its spaces are planned and its commands run, on files that it names."""

import json
import re
import shlex
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.evaluate.user_sets import USUAL_COLUMNS
from tests.commands import printed

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your_data.md").read_text(encoding="utf8")
SPACES = re.findall(r"^```yaml\n(version:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    shlex.split(line)[1:] for line in re.findall(r"^cse .*$", PAGE, re.MULTILINE) if not line.startswith("cse: ")
]
SMALL = ("train.encoder=words-l1-h64", "train.examples=64", "train.evaluations=2", "train.batch_size=16")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every file that the page names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    rows = [(f"the river {i} is old", f"it is by bridge {i * 7}", i % 5) for i in range(40)]
    for name, turn in (("dev.tsv", 0), ("other.tsv", 3)):
        lines = [f"{left}\t{right} {turn}\t{(rating + turn) % 5}\n" for left, right, rating in rows]
        Path(name).write_text("sentence1\tsentence2\tscore\n" + "".join(lines), encoding="utf8")
    pairs = "".join(f"a house {i},a garden {i * 3},{i % 4}\n" for i in range(30))
    Path("pairs.csv").write_text("left text,right text,how near\n" + pairs, encoding="utf8")
    Path("mails.jsonl").write_text("".join(json.dumps({"id": i, "body": r[0]}) + "\n" for i, r in enumerate(rows)))
    Path("reviews.txt").write_text("".join(f"{right}\n" for _, right, _ in rows), encoding="utf8")
    intents = [{"text": f"where is my order {i}" if i % 2 else f"send {i} back", "label": i % 2} for i in range(30)]
    Path("intents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in intents), encoding="utf8")
    answers = "".join(f"{left}\t{right}\t{rating // 3}\n" for left, right, rating in rows)
    Path("faq.tsv").write_text("query\tdocument\trelevance\n" + answers, encoding="utf8")
    for name, text in zip(("shop.yaml", "corpora.yaml"), SPACES, strict=True):
        Path(name).write_text(text, encoding="utf8")
    return tmp_path


def given(command: str) -> list[list[str]]:
    return [words for words in COMMANDS if words[0] == command]


def test_spaces_are_planned_and_runs_are_trained_and_scored(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (*given("plan"), ["plan", "corpora.yaml"]):
        assert main(words) == 0
    said = capsys.readouterr().out
    assert "1 run, 1 unique: 0 done, 1 to run" in said and "3 runs, 3 unique: 0 done, 3 to run" in said
    for words in given("train"):
        assert main([*words, *(word for setting in SMALL for word in ("--set", setting)), "--set",
                     "train.corpus=file"]) == 0  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "64/64 dev " in said and f"score it: cse eval {files}/RUN --suite {files}/dev.tsv" in said
    evaluations = [words for words in given("eval") if "mteb:" not in words[-1]]  # test_mteb.py has the other
    assert len(evaluations) == 2
    for words in evaluations:
        assert main(words) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^{name} +{metric} ", said, re.MULTILINE) for name, metric in (
        ("dev", "spearman"), ("intents", "accuracy"), ("pairs", "spearman")))  # fmt: skip


def test_the_page_names_every_column_and_the_first_usual_names() -> None:
    for kind, usual in USUAL_COLUMNS.items():
        (row,) = re.findall(rf"^\| `{kind}` \|.*$", PAGE, re.MULTILINE)
        assert [name for name in usual if f"`{name}`" not in row] == []
    assert "| `.parquet` |" in PAGE and "--train-columns text=body" in PAGE


@pytest.mark.slow
def test_a_space_with_files_is_run_on_workers_and_scored_again_when_a_set_changes(
    ray_cluster: None, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--ledger", str(files / "l.db"), "--storage", str(files / "runs")]
    (first, changed_dev) = given("run")

    def run(words: list[str]) -> str:
        monkeypatch.chdir(files)
        return printed(capsys, *words, *place)

    said = run(first)
    assert "1 done, 0 failed" in said and re.search(r"learning_rate .* n \| +shop_test \| intents \| +faq \|", said)
    ledger = Ledger.open(files / "l.db")
    (row,) = ledger.runs()
    scores = {score.suite: score for score in ledger.scores([row.signature])}
    assert {"shop_test", "intents", "faq", "faq:ndcg@10", "faq:recall@1"} <= scores.keys()
    assert row.config["train.dev"] == "shop_dev" and row.config["train.corpus"] == "mails"
    assert "1/1 already in the ledger, 0 run" in run(first)

    with (files / "pairs.csv").open("a", encoding="utf8") as file:
        file.write("a hut,a lawn,3\n")
    assert "0 done, 0 failed, 0 stopped, 1 reused" in run(first)
    newest = {score.suite: score for score in ledger.scores([row.signature])}
    assert newest["shop_test"].protocol.data_hash != scores["shop_test"].protocol.data_hash
    assert newest["intents"].at == scores["intents"].at
    assert "1/1 already in the ledger, 0 run" in run(first)

    said = run(["best", "shop.yaml", "--score-test", "--suite", "shop_test"][:1] + given("best")[0][1:])
    assert f"shop_test {newest['shop_test'].value:.2f}" in said
    assert "1 done, 0 failed" in run(changed_dev) and len(ledger.runs()) == 2
    (other,) = [run for run in ledger.runs() if run.signature != row.signature]
    assert other.config["train.dev"] == "other" and other.identity["dev"] != row.identity["dev"]
    monkeypatch.chdir(files)
    assert main(["report", "shop.yaml", *place, "--out", str(files / "page")]) == 0
    assert "shop_test" in next((files / "page").glob("*.html")).read_text(encoding="utf8")
    sweep = next(sweep for sweep in ledger.sweeps() if sweep.id != "shop")
    assert sweep.spec.settings == {"train.dev": str(files / "other.tsv")}
    assert main(["table", sweep.id, *place]) == 0
