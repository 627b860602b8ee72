"""The face for authors of plug-ins, a run's configuration and random streams, and errors while a file is read."""

import ast
import errno
import gzip
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from cse_train import api, methods, random_streams
from cse_train.config import parse_run, run_problems
from cse_train.fields import ConfigError, describe, fits, hints, normal, range_of
from cse_train.methods.base import METHOD_HOOKS as METHODS
from cse_train.methods.base import load_method
from cse_train.methods.options.simcse import Config
from cse_train.plugins import registry
from cse_train.plugins.options import OPTION_HOOKS as SETTINGS
from cse_train.reading import first_line, is_out_of_memory, reading, require_size

REPO = Path(__file__).resolve().parents[2]
METHOD = """
from dataclasses import dataclass

from cse_train.api import Method, Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    VERSION = 1

    scale: float = 2.0


class Margin(Method[Config]):
    @classmethod
    def columns(cls, config):
        return ("sent0", "sent1")
"""


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Lets runs name the method `margin_loss` of this text."""

    def give(text: str) -> None:
        (tmp_path / "margin_loss.py").write_text(text, encoding="utf8")
        registry.use([tmp_path / "margin_loss.py"])

    yield give
    registry.forget()


def imports_of(text: str) -> set[str]:
    """The modules of ours that a text imports."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in nodes]
    return {name for name in names if name.partition(".")[0] == "cse_train"}


def test_the_face_has_all_that_it_names_and_says_it_to_a_type_checker_too() -> None:
    tree = ast.parse(Path(api.__file__).read_text(encoding="utf8"))
    (typed,) = [node.body for node in tree.body if isinstance(node, ast.If)]
    told = {node.module: tuple(name.name for name in node.names) for node in typed if isinstance(node, ast.ImportFrom)}
    assert told == api.LAZY
    assert sorted(api.__all__) == sorted([*api.HOMES, "Added", "ConfigError", "Options", "Range"])
    assert [name for name in api.__all__ if getattr(api, name) is None] == []
    with pytest.raises(AttributeError, match="cse_train.api has no Batches; it has Added, Backbone, Batch"):
        api.Batches  # noqa: B018


def test_settings_are_read_without_torch() -> None:
    program = "import sys; from cse_train.api import Options, Range, Added, ConfigError; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, timeout=100)
    assert done.stdout == "False\n", done.stderr


def test_the_start_and_the_page_of_a_method_take_what_they_need_from_the_face_alone() -> None:
    page = (REPO / "docs" / "your_method.md").read_text(encoding="utf8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for text in (example, (REPO / "cse" / "cli" / "extend" / "method.txt").read_text(encoding="utf8")):
        assert imports_of(text) == {"cse_train.api"}


def test_shipped_methods_are_what_a_plug_in_is(given: Callable[[str], None]) -> None:
    """The same two classes, found by the same way."""
    given(METHOD)
    for name in methods.names():
        assert issubclass(load_method(name), api.Method) and issubclass(methods.config_class(name), api.Options)
        assert registry.require("method", name).name == name
    config = methods.config_class("margin_loss")()
    assert load_method("margin_loss").columns(config) == ("sent0", "sent1") and config.version() == 1
    assert load_method("margin_loss").tokens_kept(config, 16) == 16


MISSPELT = [
    ("def columns", "def colums", "no such hook: margin_loss.Margin.colums; did you mean columns?"),
    ("def columns", "def usable_row", "no such hook: margin_loss.Margin.usable_row; did you mean usable_rows?"),
    ("class Margin(Method[Config]):", "class Margin(Method[Config]):\n    TRAINING_ONLI = ()\n",
     "no such hook: margin_loss.Margin.TRAINING_ONLI; did you mean TRAINING_ONLY?"),
    ("    scale", "    def input(self):\n        return {}\n\n    scale",
     "no such hook: margin_loss.Config.input; did you mean inputs?"),
    ("VERSION = 1", "VERSON = 1", "no such hook: margin_loss.Config.VERSON; did you mean VERSION?"),
    ("VERSION = 1", "VERSION: int = 1", "name of a hook: margin_loss.Config.VERSION is an option; write VERSION = "),
    ("scale: float", "inputs: float", "name of a hook: margin_loss.Config.inputs is an option; give it another name"),
    ("(Options)", "", "no options: method=margin_loss Config=Config in "),
    ("VERSION = 1", "pass", "wrong version: method=margin_loss VERSION=None in "),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "line"), MISSPELT, ids=[line[:50] for *_, line in MISSPELT])
def test_a_misspelt_hook_is_refused_with_the_nearest_right_name(
    given: Callable[[str], None], before: str, after: str, line: str
) -> None:
    assert before in METHOD
    given(METHOD.replace(before, after))
    with pytest.raises(ConfigError) as error:
        methods.config_class("margin_loss")
    (problem,) = error.value.problems
    assert problem.startswith(line), problem


def test_a_helper_of_ones_own_is_no_hook(given: Callable[[str], None]) -> None:
    given(METHOD + "\n    def _columns_of(self):\n        return 3\n\n    def margin_of(self):\n        return 4\n")
    assert load_method("margin_loss").__name__ == "Margin"


def test_two_methods_in_one_file_are_refused(given: Callable[[str], None]) -> None:
    given(METHOD + "\n\nclass Other(Method[Config]):\n    pass\n")
    with pytest.raises(ConfigError, match="no one method: method=margin_loss has of the classes of Method Margin, Oth"):
        load_method("margin_loss")


def test_every_hook_has_a_sentence_of_its_own() -> None:
    """A class with defaults is its own documentation."""
    for shape, hooks in ((api.Method, METHODS), (api.Options, SETTINGS)):
        functions = [getattr(shape, name) for name in hooks if callable(getattr(shape, name, None))]
        assert [hook.__name__ for hook in functions if not hook.__doc__] == []


BLOCKED = ("pydantic", "pydantic_core", "annotated_types", "ray", "optuna", "typer", "sqlalchemy")
SCRIPT = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED}))
from cse_train.config import parse_run
run = parse_run({{"method": "simcse", "train.learning_rate": 1, "method.temperature": 0.1}})
print(run.train.learning_rate, run.options.temperature)
"""


def test_a_run_is_read_where_pydantic_is_absent() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1.0", "0.1"]


def test_every_problem_of_a_run_at_once() -> None:
    wrong = {"method": "simcse", "train.batch_size": 1, "method.tempreture": 1, "train.dropout": True, "other": 1}
    with pytest.raises(ConfigError) as caught:
        parse_run(wrong)
    assert caught.value.problems == [
        "unknown key: method.tempreture=1; did you mean method.temperature?",
        "out of range: train.batch_size=1; give int >= 2",
        "wrong type: train.dropout=True is a bool; give float >= 0 and < 1 or null",
        caught.value.problems[3],
    ]
    assert caught.value.problems[3].startswith("unknown key: other=1; ")


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("mlm_weight", 1, 1.0), ("mlm_weight", None, None), ("mlm_weight", 0.5, 0.5), ("fixed_dropout", True, True),
        ("pooler", "cls", "cls"), ("synonyms", None, None), ("synonyms", "folder", "folder"),
    ],
)  # fmt: skip
def test_an_int_becomes_the_float_that_a_field_holds(name: str, value: object, held: object) -> None:
    annotation = hints(Config)[name]
    assert fits(annotation, value)
    assert normal(annotation, value) == held and type(normal(annotation, value)) is type(held)


@pytest.mark.parametrize(
    ("name", "value"),
    [("mlm_weight", True), ("mlm_weight", "1"), ("fixed_dropout", 1), ("pooler", "clss"), ("pooler", 1)],
)
def test_no_other_type_passes_for_a_field_s_own(name: str, value: object) -> None:
    assert not fits(hints(Config)[name], value)


def test_a_range_is_seen_through_an_optional_field() -> None:
    assert str(range_of(hints(Config)["mlm_weight"])) == "> 0"
    assert describe(hints(Config)["mlm_weight"]) == "float > 0 or null"


@pytest.mark.parametrize(
    ("method", "encoder", "problem"),
    [
        ("infersent", "glove.6B.300d.txt", None),
        ("infersent", "glove-6b-50d", None),
        ("simcse", "bert-base-uncased", None),
        ("infersent", "bert-base-uncased", "no word vectors: train.encoder=bert-base-uncased for method=infersent; "
         "give a text file of .txt or .vec, or glove-6b-50d"),
        ("simcse", "crawl.vec", "word vectors: train.encoder=crawl.vec for method=simcse, which trains a transformer; "
         "choose one"),
    ],
)  # fmt: skip
def test_word_vectors_go_with_methods_that_read_them(method: str, encoder: str, problem: str | None) -> None:
    assert run_problems({"method": method, "train.encoder": encoder}) == [problem] * (problem is not None)


def test_dropout_draws_what_torchs_own_seeding_gives():
    random_streams.seed_dropout(3, 7, 1)
    drawn = torch.rand(5)
    torch.manual_seed(random_streams.seed_of(3, "dropout", 7, 1))
    assert torch.equal(torch.rand(5), drawn)
    random_streams.seed_dropout(3, 8, 1)
    assert not torch.equal(torch.rand(5), drawn)


def test_an_error_of_a_library_is_one_short_line() -> None:
    with pytest.raises(ConfigError) as raised, reading("unreadable config", "a.json", "fetch it again"):
        raise RuntimeError("first\x1b[31m " + "x" * 1000 + "\nsecond")
    (line,) = raised.value.problems
    assert line.startswith("unreadable config: a.json (first [31m xxx") and line.endswith("...); fetch it again")
    assert len(line) < 250
    assert first_line(ValueError("\n \n")) == "ValueError"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError(["ours: a=1; fix"]),
        OSError(errno.EACCES, "Permission denied", "a.json"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_ours_the_systems_and_too_little_memory_go_through(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, reading("unreadable", "a.json", "fetch it again"):
        raise error
    assert raised.value is error


def test_only_the_kinds_that_are_named_are_caught() -> None:
    told = r"^cut: a.gz \(Not a gzipped file\); fetch it"
    with pytest.raises(ConfigError, match=told), reading("cut", "a.gz", "fetch it", (gzip.BadGzipFile,)):
        raise gzip.BadGzipFile("Not a gzipped file")
    with pytest.raises(KeyError), reading("cut", "a.gz", "fetch it", (gzip.BadGzipFile,)):
        raise KeyError("a mistake of ours")


def test_memory_is_called_by_its_name() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch calls it on a GPU."""

    assert is_out_of_memory(MemoryError()) and is_out_of_memory(OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))


def test_a_file_that_is_read_whole_has_a_limit(tmp_path) -> None:
    path = tmp_path / "config.json"
    require_size(path, 3, "fetch it again")
    path.write_bytes(b"four")
    with pytest.raises(ConfigError, match=r"^too large: .*config.json has 4 bytes, 3 at most; fetch it again"):
        require_size(path, 3, "fetch it again")
