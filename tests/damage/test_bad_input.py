"""What people gave that once ended as "internal error", hung, or was accepted: its line, and exit code 2."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import check_options
from cluster.search.budget import parse_budgets
from cse.cli import exit
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.evaluate.pairs import load_pairs, require_grades
from cse_train.fields import ConfigError
from cse_train.text.file_corpora import file_source
from cse_train.text.files import LINE_CHARACTERS
from cse_train.text.tables import read_sentences
from search_spaces.parse import parse_file
from search_spaces.strict_yaml import parse_yaml
from tests.commands import problems

pytestmark = pytest.mark.usefixtures("somewhere")

SPACE = "version: 1\nid: mine\nmethod: simcse\nspace:\n  train.learning_rate: {grid: [1e-4, 2e-4]}\n"


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The words of a command that ends with exit code 2, on one line."""
    return " ".join(" ".join(problems(capsys, *argv)).split())


# Text, CSV and JSON lines


def packed() -> bytes:
    content = bytearray(gzip.compress(b"a river by a bridge\n" * 2000, mtime=0))
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


TEXTS = {
    "a.txt.gz": (packed(), "truncated data: "),
    "cut.txt.gz": (gzip.compress(b"a river\n" * 50)[:-12], "truncated data: "),
    "open.csv": (b'sent0,sent1\na,b\n"c,d\ne,f\n', "wrong row: open.csv ends within quotes"),
    "long.csv": (
        b'sent0,sent1\n"' + b"x\n" * (LINE_CHARACTERS // 2 + 1) + b'",b\n',
        "wrong row: long.csv (field larger than field limit",
    ),
    "deep.jsonl": (b"[" * 100_000, "wrong row: deep.jsonl line 1 is not a JSON object"),
    "half.jsonl": (b'{"text": "a \\ud800 b"}\n', "wrong row: half.jsonl line 1 is not a JSON object"),
    "latin.txt": (b"caf\xe9\n", "not UTF-8: latin.txt"),
    "line.txt.gz": (gzip.compress(b"x" * (LINE_CHARACTERS + 2)), "line too long: line.txt.gz"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_damaged_text_is_named(name: str) -> None:
    content, told = TEXTS[name]
    Path(name).write_bytes(content)
    column = "sent0" if ".csv" in name else None
    for read in (
        lambda: list(file_source("file", Path(name)).rows()),
        lambda: list(read_sentences(Path(name), column)),
    ):
        with pytest.raises(ConfigError) as raised:
            read()
        (line,) = raised.value.problems
        assert line.startswith(told) and exit.verdict(raised.value)[0] == exit.MISTAKE


def test_quoted_lines_and_a_file_without_a_last_newline_are_read_whole() -> None:
    Path("good.csv").write_text('sent0,sent1\n"a\nb",c\n\nd,"e ""f"""', encoding="utf8")
    assert list(file_source("file", Path("good.csv")).rows()) == [("a\nb", "c"), ("d", 'e "f"')]
    assert list(read_sentences(Path("good.csv"), "sent1")) == ["c", "", 'e "f"']


def test_embed_refuses_a_damaged_file_before_a_model_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    Path("open.csv").write_bytes(TEXTS["open.csv"][0])
    words = refused(
        capsys, "embed", "words-l1-h64", "open.csv", "--to", "o.npy", "--column", "sent0", "--pooler", "mean"
    )
    assert "wrong row: open.csv ends within quotes; close the quote" in words and not Path("o.npy").exists()


# Numbers


@pytest.mark.parametrize(
    "text", ["1e400", "-1e999", "!!float .inf", "!!int x", "!!bool maybe", "!!binary x", "!!set {a}"]
)
def test_no_tag_and_no_number_beyond_a_float_passes_yaml(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f: not YAML: line=1; "):
        parse_yaml(f"key: {text}", "f")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_setting_is_a_finite_number(value: float) -> None:
    with pytest.raises(ConfigError, match=r"^out of range: train.learning_rate=.*; give a finite number"):
        parse_run({"method": "simcse", "train.learning_rate": value})


def test_a_long_value_is_shortened_and_a_long_list_is_cut() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_run({"method": "simcse", "train.batch_size": "x" * 10**6, "train." + "y" * 10**6: 1})
    wrong, unknown = sorted(raised.value.problems, key=len)
    assert wrong.startswith("wrong type: train.batch_size='xxx") and len(wrong) < 200
    assert unknown.startswith("unknown key: train.yyy") and len(unknown) < 1000


def test_counts_have_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    words = refused(capsys, "plan", "mine.yaml", "--seeds", "1000000000")
    assert "'--seeds': Input should be less than or equal to 10000" in words
    for amount in ("9" * 400, "1e400", "inf"):
        with pytest.raises(ConfigError, match=r"^wrong budget: "):
            parse_budgets([f"{amount}runs"], ["simcse"])
    for name in ("gpus_per_worker", "cpus_per_worker", "workers"):
        for value in (float("inf"), float("nan")):
            with pytest.raises(ConfigError, match=rf"^out of range: {name}={value}; "):
                check_options(SweepOptions(storage=Path("."), **{name: value}))
    with pytest.raises(ConfigError, match=r"^wrong count: suite=generated_dev:99999999999; give"):
        load_pairs("generated_dev:99999999999", DataPaths())


def test_a_seed_is_listed_once() -> None:
    Path("mine.yaml").write_text(SPACE + "seeds: [1, 2, 1]\n", encoding="utf8")
    with pytest.raises(ConfigError, match=r"mine.yaml: duplicate seed: seeds=1; list it once"):
        parse_file(Path("mine.yaml"))


# Ratings


@pytest.mark.parametrize(
    ("gold", "told"), [([3.0, 3.0], "constant grades"), ([1.0, 1e6], "wrong grade"), ([-1.0, 2.0], "wrong grade")]
)
def test_ratings_are_those_of_their_sets(gold: list[float], told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{told}.*sts_dev"):
        require_grades("sts_dev", gold)


# Paths and addresses


def test_circles_of_links_and_unknown_users(capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink("loop.yaml", "loop.yaml")
    os.symlink("loop", "loop")
    assert "loop.yaml" in refused(capsys, "plan", "loop.yaml")
    assert "cannot use a path: " in refused(capsys, "trials", "--ledger", "loop/l.db")
    assert "cannot use a path: " in refused(capsys, "trials", "--ledger", "~nobodyhere/l.db")
    assert "ledger url: value=" in refused(capsys, "trials", "--ledger", "postgresql://[::1/x")


def test_a_figure_of_an_unknown_kind_is_refused_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown figure: figure=x.exe; end the name in .png" in refused(capsys, "table", "E7", "--figure", "x.exe")


# Model folders


def model(**changes: object) -> Path:
    """A shipped encoder and its tokenizer in a folder, its config.json changed."""
    shutil.copytree(find_weights() / "words-l1-h64", "model")
    config = json.loads(Path("model/config.json").read_text(encoding="utf8"))
    Path("model/config.json").write_text(json.dumps(config | changes), encoding="utf8")
    return Path("model").resolve()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ({"num_attention_heads": 7}, "num_attention_heads=7"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000"),
        ({"num_hidden_layers": 999, "intermediate_size": 10**6}, "incomplete weights: "),
        ({"vocab_size": 100}, "incomplete weights: "),
        ({"vocab_size": "many"}, "config"),
        ({"hidden_size": None}, "config"),
        ({"layer_norm_eps": 0}, "layer_norm_eps"),
        ({"layer_norm_eps": -1e-12}, "layer_norm_eps=-1e-12"),
        ({"hidden_dropout_prob": 7}, "hidden_dropout_prob=7"),
        ({"model_type": "nosuch"}, "unreadable config: "),
        ({"model_type": None}, "config"),
    ],
)
def test_a_config_that_cannot_be(changes: dict, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_backbone(str(model(**changes)))
    assert told in raised.value.problems[0] and "\n" not in raised.value.problems[0]


def test_a_tokenizer_with_more_pieces_than_the_encoder_has_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=100, **size)).save_pretrained("small")
    shutil.copytree(find_weights() / "tokenizer", "small", dirs_exist_ok=True)
    Path("text.txt").write_text("a river\n" * 40, encoding="utf8")
    told = "wrong tokenizer: "
    assert told in refused(capsys, "embed", "small", "text.txt", "--to", "o.npy", "--pooler", "mean")
    train = ("train", "simcse", "--train-file", "text.txt", "--to", "run", "--set", "train.corpus=file")
    fixed = ("train.encoder=./small", "method.pooler=mean", "train.dev=generated_dev:20")
    assert told in refused(capsys, *train, *(word for pair in fixed for word in ("--set", pair)))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 50_000, b"\xff\xfe", b'{"model": {"type": "x"}}'])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json"])
def test_files_of_a_model_that_are_no_such(name: str, content: bytes) -> None:
    model()
    Path("model", name).write_bytes(content)
    with pytest.raises(ConfigError, match=r"^(unreadable|impossible|wrong tokenizer|incomplete)"):
        load_backbone(str(Path("model").resolve()))


# What is ours


def test_out_of_memory_is_called_so() -> None:
    code, (line,) = exit.verdict(MemoryError())
    assert (code, line.partition(";")[0]) == (1, "out of memory: MemoryError")
    allocator = RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried"
    )
    assert (
        exit.verdict(allocator)[1][0].startswith("out of memory: ")
        and "train.batch_size" in exit.verdict(allocator)[1][0]
    )
