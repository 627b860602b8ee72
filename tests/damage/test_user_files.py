"""Mistakes in files of a user's own: one line that names the file and what to do, and exit code 2."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cse.cli.app import main
from tests.commands import printed, problems

GOOD = "sentence1\tsentence2\tscore\n" + "".join(f"a river {i}\ta bridge {i * 7}\t{i % 5}\n" for i in range(20))
CORPUS = "".join(f"the stone by river {i} is old\n" for i in range(40))
LABELS = "text,label\n" + "".join(f"a river {i},{'wet' if i % 2 else 'dry'}\n" for i in range(30))
TEST = "sentence1\tsentence2\tscore\n" + "".join(f"a house {i}\ta garden {i * 3}\t{i % 4}\n" for i in range(20))


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    Path("good.tsv").write_text(GOOD, encoding="utf8")
    Path("held.tsv").write_text(TEST, encoding="utf8")
    Path("corpus.txt").write_text(CORPUS, encoding="utf8")
    Path("labels.csv").write_text(LABELS, encoding="utf8")


def space(**given: Any) -> str:
    """The file of a space on good files, but for what is given."""
    raw = {"version": 1, "id": "mine", "method": "simcse", "dev": "good.tsv", "corpus": "corpus.txt"} | given
    raw.setdefault("space", {"train.learning_rate": {"grid": [1e-4]}})
    Path("mine.yaml").write_text(yaml.safe_dump(raw), encoding="utf8")
    return "mine.yaml"


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line of a command that ends with exit code 2."""
    lines = problems(capsys, *argv)
    assert sum(line.startswith("cse: ") for line in lines) == 1, lines
    return " ".join(" ".join(lines).split())


def test_good_files_are_planned_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert "3 runs, 3 unique: 0 done, 3 to run" in printed(capsys, "plan", space(evaluate=["held.tsv", "labels.csv"]))


CONTENTS: dict[str, tuple[str, bytes, str]] = {
    "missing rating": ("d.tsv", GOOD.replace("\t3\n", "\t\n", 1).encode(), "missing number: "),
    "constant ratings": ("d.tsv", b"sentence1\tsentence2\tscore\n" + b"a\tb\t3\n" * 9, "constant ratings: "),
    "ratings that differ in a last digit": (
        "d.tsv",
        b"sentence1\tsentence2\tscore\na\tb\t0.3\nc\td\t0.30000000000000004\ne\tf\t0.3\n",
        "constant ratings: ",
    ),
    "equal texts": ("d.csv", b"sentence1,sentence2,score\na,a,1\nb,b,2\nc,c,3\n", "equal texts: "),
    "words as ratings": ("d.tsv", GOOD.replace("\t3\n", "\thigh\n", 1).encode(), "score=high; correct it"),
    "infinite rating": ("d.tsv", GOOD.replace("\t3\n", "\t1e400\n", 1).encode(), "not a number: "),
    "a row too short": ("d.tsv", b"id\tsentence1\tsentence2\tscore\na\tb\t3\n", "line 2 has 3 fields, the header 4"),
    "a row too long": ("d.csv", b"sentence1,sentence2,score\na, b,c,3\n", "line 2 has 4 fields, the header 3"),
    "no text": ("d.tsv", GOOD.replace("a river 3\t", "\t", 1).encode(), "empty sentence: "),
    "Latin-1": ("d.tsv", GOOD.replace("river", "fl\u00fb").encode("latin-1"), "not UTF-8: "),
    "UTF-16": ("d.tsv", GOOD.encode("utf-16"), "not UTF-8: "),
    "nothing": ("d.tsv", b"", "empty file: "),
    "a header alone": ("d.tsv", b"sentence1\tsentence2\tscore\n", "too few pairs: "),
    "no header": ("d.tsv", b"\n\n", "empty file: "),
    "a column twice": ("d.tsv", b"sentence1\tsentence1\tscore\n", "has sentence1 twice"),
    "other names": ("d.tsv", GOOD.replace("score", "how near", 1).encode(), "say which is which by columns: "),
    "an open quote": ("d.csv", b'sentence1,sentence2,score\n"a,b,3\nc,d,4\n', "or give `quotes: false`"),
    "a quote within": ("d.tsv", b'sentence1\tsentence2\tscore\n"a" b\tc\t3\n', "or give `quotes: false`"),
    "no JSON": ("d.jsonl", b'{"sentence1": "a", "sentence2": "b", "score": 1}\n[1]\n', "line 2 is no JSON object"),
    "a list as text": ("d.jsonl", b'{"sentence1": ["a"], "sentence2": "b", "score": 1}\n', "sentence1 is a list"),
    "true as rating": ("d.jsonl", b'{"sentence1": "a", "sentence2": "b", "score": true}\n', "not a number: "),
    "no Parquet": ("d.parquet", b"PAR1 and no more", "unreadable file: "),
    "cut gzip": ("d.tsv.gz", b"\x1f\x8b\x08\x00\x00", "truncated data: "),
    "one class": ("d.csv", LABELS.replace("wet", "dry").encode(), "constant labels: "),
    "few of a class": ("d.csv", (LABELS + "a lake,cold\n").encode(), "has 1 of label=cold, and folds need 12"),
    "no class": ("d.csv", LABELS.replace(",wet", ",", 1).encode(), "missing label: "),
    "no answer": ("d.tsv", b"query\tdocument\trelevance\na\tb\t0\n", "nothing to retrieve: "),
    "below zero": ("d.tsv", b"query\tdocument\trelevance\na\tb\t-1\n", "nothing to retrieve: "),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_set_that_cannot_be_read_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, content, told = CONTENTS[name]
    Path(file).write_bytes(content)
    for argv in (("plan", space(dev=file)), ("plan", space(evaluate=[file]))):
        line = refused(capsys, *argv)
        assert told in line and "d." in line, line
    training = ("train", "simcse", "--set", f"train.dev={file}", "--set", "train.corpus=corpus.txt", "--to", "run")
    assert told in refused(capsys, *training) and not Path("run").exists()


ROWS = 60
TEXTS = "id,body\n" + "".join(f"{i},the stone by river {i} is old\n" for i in range(ROWS))
LONG = "the river " * 20_000
CORPORA: dict[str, tuple[str, bytes, str]] = {
    "empty rows": (
        "c.csv",
        TEXTS.replace("the stone by river 3 is old", "").encode(),
        "has 1 of 60 without words, the",
    ),
    "blanks alone": ("c.jsonl", b'{"text": "a"}\n{"text": " "}\n', "has 1 of 2 without words, the first is row 2"),
    "a null": ("c.jsonl", b'{"body": "a"}\n{"body": null}\n', "has 1 of 2 without words, the first is row 2"),
    "half a pair": ("c.tsv", b"id\tsent0\tsent1\n1\ta\tb\n2\tc\t\n", "has 1 of 2 without words, the first is row 2"),
    "a late short row": ("c.csv", (TEXTS + "60\n").encode(), "line 62 has 1 fields, the header 2"),
    "a late long row": ("c.csv", (TEXTS + "60,a,b\n").encode(), "line 62 has 3 fields, the header 2"),
    "a late open quote": ("c.csv", (TEXTS + '60,"a\n').encode(), "or give `quotes: false`"),
    "late Latin-1": ("c.csv", (TEXTS + "60,fl\u00fb\n").encode("latin-1"), "not UTF-8: "),
    "UTF-16": ("c.csv", TEXTS.encode("utf-16"), "not UTF-8: "),
    "UTF-16 text": ("c.txt", CORPUS.encode("utf-16"), "not UTF-8: "),
    "a late number": ("c.jsonl", b'{"body": "a"}\n{"body": 7}\n', "body is a int"),
    "half a letter": ("c.jsonl", b'{"body": "a"}\n{"body": "\\ud800"}\n', "half a letter: "),
    "a late list": ("c.jsonl", b'{"body": "a"}\n["b"]\n', "line 2 is no JSON object"),
    "cut gzip": ("c.csv.gz", gzip.compress(TEXTS.encode())[:-9], "truncated data: "),
    "a wrong label": ("c.csv", b"sent0,sent1,label\na,b,neutral\na,b,maybe\n", "line 3 has label=maybe"),
    "a header alone": ("c.csv", b"id,body\n", "has no row with text"),
    "blank lines alone": ("c.txt", b"\n \n\n", "has no row with text"),
    "a line of 10 million": ("c.txt", b"a" * 10_000_001, "line too long: "),
    "a column twice": ("c.csv", b"body,body\na,b\n", "has body twice"),
    "other names": ("c.csv", b"one,two\na,b\n", "say which is which by columns: {text: NAME}"),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_that_cannot_be_read_to_its_end_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, content, told = CORPORA[name]
    Path(file).write_bytes(content)
    assert told in refused(capsys, "plan", space(corpus=file))
    training = ("train", "simcse", "--set", f"train.corpus={file}", "--set", "train.dev=good.tsv", "--to", "run")
    assert told in refused(capsys, *training) and not Path("run").exists()


COUNTS: dict[str, tuple[str, bytes, dict[str, Any], str]] = {
    "as it is": ("c.csv", TEXTS.encode(), {}, "; not read: id; 60 rows; words: median 7, 99% up to 7"),
    "empty rows": (
        *("c.csv", TEXTS.replace("the stone by river 3 is old", "").encode(), {"on_empty": "skip"}),
        "; 60 rows; 1 empty, left out; words: ",
    ),
    "blank lines": ("c.txt", CORPUS.replace("\n", "\n\n", 2).encode(), {}, "; 42 rows; 2 empty, left out; words: "),
    "one column of a release": ("c.csv", b'text\na river\n""\n', {}, "1 empty, trained on as blanks (`on_empty: skip`"),
    "equal rows": (
        *("c.txt", (CORPUS + CORPUS).encode(), {}),
        "; 80 rows; 40 equal to an earlier one, trained on (`deduplicate: true` leaves them out); words: ",
    ),
    "equal rows left out": (
        *("c.txt", (CORPUS + CORPUS).encode(), {"deduplicate": True}),
        "; 80 rows; 40 equal to an earlier one, left out; words: ",
    ),
    "200 kB in a field": (
        *("c.csv", (TEXTS + f"60,{LONG}\n").encode(), {}),
        "; 61 rows; words: median 7, 99% up to 40,000, longest 40,000",
    ),
    "200 kB in a line": ("c.txt", (CORPUS + LONG).encode(), {}, "; 41 rows; words: median 7, 99% up to 40,000"),
    "200 kB of JSON": ("c.jsonl", json.dumps({"body": LONG}).encode(), {}, "; 1 row; words: median 40,000"),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_a_corpus_is_counted_before_anything_is_trained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, content, given, told = COUNTS[name]
    Path(file).write_bytes(content)
    corpus = json.dumps({"file": file, **given})
    printed(capsys, "plan", space(corpus={"file": file, **given}))
    lacking = ("--set", "train.encoder=./nowhere", "--to", "run")
    assert main(["train", "simcse", "--set", f"train.corpus={corpus}", "--set", "train.dev=good.tsv", *lacking]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "no such column": ({"dev": {"file": "good.tsv", "columns": {"rating": "scor"}}}, "did you mean score?"),
    "no such role": ({"dev": {"file": "good.tsv", "columns": {"ratin": "score"}}}, "did you mean rating?"),
    "one column for both texts": (
        {"dev": {"file": "good.tsv", "columns": {"sentence1": "sentence1", "sentence2": "sentence1"}}},
        "one column twice: ",
    ),
    "one column for text and label": (
        {"evaluate": [{"file": "labels.csv", "columns": {"text": "text", "label": "text"}}]},
        "one column twice: ",
    ),
    "roles of two kinds": (
        {"dev": {"file": "good.tsv", "columns": {"rating": "a", "query": "b"}}},
        "give those of one",
    ),
    "no such key": ({"dev": {"fil": "good.tsv"}}, "missing key: dev.file"),
    "no such kind": ({"dev": {"file": "good.tsv", "kind": "sts"}}, "give ratings, labels or retrieval"),
    "another kind": ({"dev": {"file": "good.tsv", "kind": "labels"}}, "columns: {text: NAME, label: NAME}"),
    "dev as test": ({"evaluate": ["good.tsv"]}, "dev set as test set: "),
    "dev as test, renamed": ({"evaluate": [{"file": "good.tsv", "name": "x"}]}, "dev set as test set: "),
    "a test set's name as dev": ({"dev": "held", "evaluate": ["held.tsv"]}, "test set as dev: train.dev=held"),
    "two of one name": ({"evaluate": ["held.tsv", {"file": "labels.csv", "name": "held"}]}, "two sets of one name: "),
    "a suite's name": ({"evaluate": [{"file": "held.tsv", "name": "sts"}]}, "name of a shipped suite: "),
    "a set's name": ({"dev": {"file": "good.tsv", "name": "sts_dev"}}, "name of a shipped suite: "),
    "a corpus's name": ({"corpus": {"file": "corpus.txt", "name": "wiki"}}, "name of a shipped corpus: "),
    "a name with a comma": ({"dev": {"file": "good.tsv", "name": "a,b"}}, "wrong name: dev.name=a,b"),
    "set twice": ({"set": {"train.dev": "sts_dev"}}, "key set twice: dev=good.tsv"),
    "columns of plain text": ({"corpus": {"file": "corpus.txt", "columns": {"text": "a"}}}, "no columns: "),
    "a corpus of ratings": ({"corpus": {"file": "labels.csv", "columns": {"sent0": "text"}}}, "no corpus: "),
    "a corpus's column": ({"corpus": {"file": "labels.csv", "columns": {"text": "txt"}}}, "did you mean text?"),
    "no text in a corpus": ({"corpus": {"file": "n.csv"}}, "say which is which by columns: {text: NAME}"),
    "a picture": ({"dev": {"file": "a.png", "name": "a"}}, "no table: file="),
    "no split": ({"dev": {"file": ".", "name": "a"}}, "unreadable data set: "),
    "empty rows of a set": ({"dev": {"file": "good.tsv", "on_empty": "skip"}}, "wrong key: dev.on_empty=skip of a set"),
    "equal rows of a set": ({"evaluate": [{"file": "held.tsv", "deduplicate": True}]}, "deduplicate=true of a set"),
    "empty rows kept": ({"corpus": {"file": "corpus.txt", "on_empty": "keep"}}, "give skip or refuse"),
    "a number": ({"dev": 7}, "wrong type: dev=7"),
}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_space_says_of_files_is_checked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("n.csv").write_text("one,two\n1,2\n", encoding="utf8")
    Path("a.png").write_bytes(b"\x89PNG")
    given, told = NAMES[name]
    if name == "no such key":
        assert main(["plan", space(**given)]) == 2
        assert told in " ".join(capsys.readouterr().err.split())
    else:
        assert told in refused(capsys, "plan", space(**given))


def test_a_copy_of_the_dev_set_is_no_test_set_whatever_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split("\t") for line in GOOD.splitlines()[1:]]
    with Path("copy.jsonl").open("w", encoding="utf8") as copy:
        for left, right, rating in reversed(rows):
            copy.write(json.dumps({"text1": f"{right.upper()} .", "text2": left, "rating": -float(rating)}) + "\n")
    assert "has the texts of copy; give other data" in refused(capsys, "plan", space(evaluate=["copy.jsonl"]))


def test_a_copy_of_a_shipped_test_set_picks_no_checkpoint(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    """Without SentEval's folder at hand, and with other tokens, order and case."""
    lines = (data_dir / "senteval/downstream/STS/STSBenchmark/sts-test.csv").read_text(encoding="utf8").splitlines()
    rows = [line.split("\t") for line in lines]
    with Path("mine.jsonl").open("w", encoding="utf8") as copy:
        for row in reversed(rows):
            copy.write(json.dumps({"a": row[5].upper(), "b": row[6].replace(" ,", ","), "score": float(row[4])}) + "\n")
    assert "has the texts of sts_test; give other data" in refused(capsys, "plan", space(dev="mine.jsonl"))


def test_files_that_are_not_there_are_missing_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(printed(capsys, "plan", space(dev="gone.tsv", corpus="lost.jsonl", evaluate=["away.csv"])).split())
    for name, file in (("gone", "gone.tsv"), ("lost", "lost.jsonl"), ("away", "away.csv")):
        assert f"missing file: {name} needs {Path(file).resolve()}" in said, said
    assert main(["run", space(dev="gone.tsv")]) == 2
    assert "missing file: gone needs" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--suite", "gone.tsv"), "missing file: gone needs"),
        (("--suite", "{file: good.tsv, columns: {rating: scor}}"), "did you mean score?"),
        (("--suite", "held.tsv", "--suite", "{file: good.tsv, name: held}"), "two sets of one name: name=held"),
        (("--suite", "helt"), "unknown suite: suite=helt"),
        (("--suite", "{file: good.tsv, name: sts}"), "name of a shipped suite: suite.name=sts"),
    ],
)
def test_eval_refuses_what_it_cannot_score(
    argv: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "eval", "words-l1-h64", "--pooler", "mean", *argv)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--train-columns", "text=label"), "no file: --train-columns=text=label"),
        (("--train-columns", "text", "--train-file", "labels.csv"), "write text=NAME"),
        (("--train-columns", "text=lable", "--train-file", "labels.csv"), "did you mean label?"),
        (("--train-columns", "words=text", "--train-file", "labels.csv"), "unknown column: columns.words"),
    ],
)
def test_train_columns_are_checked(argv: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in refused(capsys, "train", "simcse", "--set", "train.corpus=file", *argv)


FLIPPED = """
import sys
from pathlib import Path
from cse_train.fields import ConfigError
from cse_train.text.tables import open_table
from cse_train.user_files import UserFile
file = Path(sys.argv[1]).resolve()
content, read, refused = file.read_bytes(), 0, 0
for at in range(0, len(content), 2):
    file.write_bytes(content[:at] + bytes([content[at] ^ 128]) + content[at + 1:])
    try:
        table = open_table(UserFile(name="mine", file=str(file.parent), role="test"))
        read += len(list(table.read(table.columns)))
    except ConfigError:
        refused += 1
print("read", read > 0, "refused", refused > 0)
"""


def test_no_flipped_bit_of_a_saved_data_set_ends_the_process(tmp_path: Path) -> None:
    """The file is mapped into memory: an offset that points elsewhere once was a segmentation fault."""
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list([{"sentence1": f"a river {n}", "score": n / 2} for n in range(12)]).save_to_disk("saved")
    (file,) = Path("saved").glob("*.arrow")
    words = [sys.executable, "-c", FLIPPED, str(file.resolve())]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (0, "read True refused True\n"), done.stderr[-500:]
