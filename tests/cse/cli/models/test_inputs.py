"""Files that people hand to the commands of one model: how a --train-file is read, and one line for what is refused."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from cse.cli.app import main
from cse.cli.options import data_paths
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import file_source
from cse_train.text.files import Row
from cse_train.user_files import UserFile

PAIRS = "sent0,sent1\na,b\nc,d\n"
FILES: dict[str, tuple[str, tuple[str, ...], list[Row]]] = {
    "p.csv": (PAIRS, ("sent0", "sent1"), [("a", "b"), ("c", "d")]),
    "P.TSV": (PAIRS.replace(",", "\t"), ("sent0", "sent1"), [("a", "b"), ("c", "d")]),
    "t.csv": ("sent0,sent1,hard_neg\na,b,c\n", ("sent0", "sent1", "hard_neg"), [("a", "b", "c")]),
    "l.tsv": ("sent0\tsent1\tlabel\na\tb\tneutral\n", ("sent0", "sent1", "label"), [("a", "b", "neutral")]),
    "id.csv": ("id,sent0,sent1\n1,a,b\n", ("sent0", "sent1"), [("a", "b")]),
    "named.csv": ("anchor,positive\na,b\n", ("sent0", "sent1"), [("a", "b")]),
    "p.jsonl": ('{"query": "a", "answer": "b"}\n', ("sent0", "sent1"), [("a", "b")]),
    "s.csv": ("text\na river\n", ("text",), [("a river",)]),
    "body.csv": ("id,body\n1,a river\n", ("text",), [("a river",)]),
    "s.txt": ("a river\n", ("text",), [("a river",)]),
}


@pytest.mark.parametrize("name", FILES)
def test_pairs_triplets_and_text_are_what_a_corpus_of_a_space_is(name: str, tmp_path: Path) -> None:
    content, columns, rows = FILES[name]
    (tmp_path / name).write_text(content, encoding="utf8")
    paths = data_paths(None, tmp_path / name, None)
    for corpus in ("file", "wiki", *(["nli"] if len(columns) > 1 else [])):
        source = open_source(corpus, paths)
        assert (source.columns, list(source.rows())) == (columns, rows)
    mine = open_source("x", DataPaths(files=(UserFile(name="x", file=str(tmp_path / name), role="corpus"),)))
    assert (mine.columns, list(mine.rows())) == (columns, rows)


@pytest.mark.parametrize("name", ["p.csv", "P.TSV", "t.csv", "l.tsv", "named.csv", "s.csv", "s.txt"])
def test_what_was_read_by_its_places_keeps_its_hash(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name][0], encoding="utf8")
    before = file_source("file", tmp_path / name).content_hash
    assert open_source("file", data_paths(None, tmp_path / name, None)).content_hash == before


def test_columns_of_names_that_say_nothing_are_read_by_their_places(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("one,two\na,b\n", encoding="utf8")
    assert list(open_source("nli", data_paths(None, tmp_path / "x.csv", None)).rows()) == [("a", "b")]


def test_pairs_leave_the_text_of_a_data_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "data/wiki").mkdir(parents=True)
    (tmp_path / "data/wiki/wiki_sentences.txt.gz").write_bytes(b"")
    (tmp_path / "p.csv").write_text(PAIRS, encoding="utf8")
    paths = data_paths(tmp_path / "data", tmp_path / "p.csv", None)
    assert paths.corpus("wiki") is None and paths.wiki == tmp_path / "data/wiki/wiki_sentences.txt.gz"
    assert open_source("nli", paths).columns == ("sent0", "sent1")


SMALL = ("--profile", "small", "--set", "train.encoder=words-l1-h64", "--set", "train.dev=generated_dev:40")
FILE = ("--set", "train.corpus=file", "--set", "train.evaluations=1")


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says on stderr before it ends with exit code 2."""
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "Traceback" not in "".join(lines)
    return lines[-1]


def test_pairs_without_labels_do_not_train_sbert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sent0,sent1\n" + "a man walks,a woman runs\n" * 40)
    said = mistake(capsys, "train", "sbert", *SMALL, *FILE, "--train-file", str(pairs), "--to", str(tmp_path / "run"))
    assert "wrong columns: train.corpus=file has sent0, sent1; method=sbert reads sent0, sent1, label" in said


@pytest.mark.parametrize("method", ["whitening", "flow"])
def test_fewer_texts_than_dimensions_fit_nothing(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"the {word} is here\n" for word in "bridge river garden winter music glass".split()))
    size = ("--set", "train.batch_size=2", "--set", "train.examples=6")
    said = mistake(
        capsys, "train", method, *SMALL, *FILE, *size, "--train-file", str(texts), "--to", str(tmp_path / "run")
    )
    assert "too few sentences" in said and "64" in said and "give more text" in said


def test_a_broken_line_of_a_vector_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    vectors = tmp_path / "glove.txt"
    vectors.write_text("the 0.1 0.2 0.3\na 0.1 x 0.3\n")
    said = mistake(capsys, "eval", str(vectors), "--suite", "sts_dev", "--data", str(data_dir))
    assert "2" in said and str(vectors) in said


class Attack:
    """Unpickled by Python itself, it makes a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("the-code-ran",)


@pytest.mark.parametrize(
    "argv",
    [
        ("eval", "model", "--suite", "generated_dev", "--pooler", "mean"),
        ("embed", "model", "text.txt", "--to", "out.npy", "--pooler", "mean"),
        ("train", "simcse", "--train-file", "text.txt", "--set", "train.encoder=./model"),
        ("train", "diffcse", "--train-file", "text.txt", "--set", "method.generator=./model"),
    ],
    ids=lambda argv: " ".join(argv[:2]),
)
def test_a_pickle_with_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(find_weights() / "words-l1-h64", "model")
    Path("model/model.safetensors").unlink()
    torch.save({"weight": Attack()}, "model/pytorch_model.bin")
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    small = ("train.corpus=file", "train.dev=generated_dev:16", "train.encoder=words-l1-h64")
    own = tuple(part for pair in small for part in ("--set", pair)) if argv[0] == "train" else ()
    assert main([argv[0], argv[1], *own, *argv[2:]]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("cse: not tensors alone: file=") and line.endswith("save the model as model.safetensors")
    assert not Path("the-code-ran").exists()
