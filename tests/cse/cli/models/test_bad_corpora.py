"""Texts and vector files that a method cannot use: one line that names the rule, and exit code 2."""

from pathlib import Path

import pytest

from cse.cli.app import main

SMALL = ("--profile", "small", "--set", "train.encoder=wiki-l1-h64", "--set", "train.dev=generated_dev:40")
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
