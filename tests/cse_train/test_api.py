"""The face for authors of plug-ins: what it gives, what it needs, and what a misspelt hook becomes."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cse_train import api, methods
from cse_train.fields import ConfigError
from cse_train.methods.base import METHOD_HOOKS as METHODS
from cse_train.methods.base import load_method
from cse_train.plugins import registry
from cse_train.plugins.options import OPTION_HOOKS as SETTINGS

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
