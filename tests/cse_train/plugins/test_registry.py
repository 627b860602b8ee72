"""Methods and suites of a user's own: how they are named, what is refused, and what their digest follows."""

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from analysis.answers.lookup import select
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.evaluate import run_suites
from cse_train.evaluate.suites import registry as suites
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.plugins import registry
from cse_train.plugins.snapshot import code_of, code_problem, snapshot
from cse_train.results import Protocol
from search_spaces.identity.method_code import own_digest
from tests.cse_train.plugins.conftest import METHOD

REPO = Path(__file__).resolve().parents[3]
SUITE = """
NAME = "norms"
COLUMNS = ("norms",)
NEEDS = ("generated_dev:20",)


def evaluate(model, paths):
    return []
"""
SPACE = """version: 1
id: mine
plugins: [margin_loss.py]
method: margin_loss
space: {method.scale: {grid: [1.0, 2.0]}}
"""
Write = Callable[..., Path]


def refused(*sources: Path | str, base: Path | None = None) -> str:
    """The one line that says why these are no plug-ins."""
    with pytest.raises(ConfigError) as error:
        registry.use(sources, base)
    (line,) = error.value.problems
    return line


def module_of(method: str) -> ModuleType:
    """The module that a method's class was made of."""
    return sys.modules[load_method(method).__module__]


def test_a_file_is_a_method_with_options_of_its_own(write: Write) -> None:
    registry.use([write("margin_loss.py")])
    assert "margin_loss" in methods.names() and "margin_loss" not in methods.list_methods()
    run = parse_run({"method": "margin_loss", "method.scale": 3})
    assert run.options == methods.config_class("margin_loss")(scale=3.0)
    assert run.options.version() == 1
    with pytest.raises(ConfigError, match="unknown key: method.scal=3"):
        parse_run({"method": "margin_loss", "method.scal": 3})


def test_a_folder_holds_methods_suites_and_what_they_import(write: Write, tmp_path: Path) -> None:
    write("first_loss.py")
    write("second_loss.py", METHOD.replace("float = 2.0", "float = 3.0"))
    write("beside.py")
    write("norms.py", SUITE)
    write("notes.py", "def evaluate():\n    pass\n")
    plugins = registry.use(["."], tmp_path)
    assert [(plugin.kind, plugin.name) for plugin in plugins] == [
        ("method", "beside"),
        ("method", "first_loss"),
        ("suite", "norms"),
        ("method", "second_loss"),
    ]
    assert "norms" in suites.names() and suites.columns("norms") == ("norms",)
    assert suites.needs("norms") == ("generated_dev:20",)
    assert suites.suite_of("norms", DataPaths()).__file__ == str(tmp_path / "norms.py")


def test_a_module_of_a_package_is_found_by_its_path_and_by_its_name(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lab/__init__.py", "")
    write("lab/losses.py", "MARGIN = 1\n")
    file = write("lab/margin_loss.py", "from .losses import MARGIN\n" + METHOD)
    (plugin,) = registry.use([file])
    assert (plugin.module, plugin.folder) == ("lab.margin_loss", tmp_path)
    assert set(plugin.files()) == {"lab", "lab.losses", "lab.margin_loss"}
    assert module_of("margin_loss").MARGIN == 1
    registry.forget()
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.use(["lab.margin_loss"]) == (plugin,)
    assert registry.use(["lab"]) == (plugin,)


def test_options_in_a_file_of_their_own_need_no_torch(write: Write, tmp_path: Path) -> None:
    head, _, rest = METHOD.partition("from cse_train.api import Method")
    write("margin_loss_options.py", head)
    write("margin_loss.py", f"from margin_loss_options import *\nfrom cse_train.api import Method{rest}")
    program = (
        "import sys; from cse_train.plugins import registry; from cse_train.config import parse_run\n"
        f"registry.use([{str(tmp_path)!r}])\n"
        "print(parse_run({'method': 'margin_loss'}).options, 'torch' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "Config(scale=2.0) False\n", done.stderr


def test_what_fails_at_import_names_the_line_of_the_users_code(write: Write) -> None:
    file = write("margin_loss.py", METHOD + "\nimport json\njson.loads('{')\n")
    registry.use([file])
    with pytest.raises(ConfigError) as error:
        parse_run({"method": "margin_loss"})
    (line,) = error.value.problems
    lines = len(file.read_text().splitlines())
    assert line.startswith(f"plug-in fails at import: method=margin_loss at {file}:{lines} (JSONDecodeError: Expecting")
    registry.forget()
    registry.use([write("other_loss.py", "import no_such_library\n" + METHOD)])
    with pytest.raises(ConfigError, match=r"at .*other_loss.py:1 \(ModuleNotFoundError: No module named 'no_such_lib"):
        load_method("other_loss")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "margin_loss.py",
            METHOD.replace("class Config", "class Settings"),
            "missing name: method=margin_loss has no Config in ",
        ),
        ("margin_loss.py", METHOD + "\ndef f(:\n", "no Python: plugin={folder}/margin_loss.py:25 (invalid syntax)"),
        ("margin_loss.py", "x = 1\n", "no plug-in: {folder}/margin_loss.py defines no method and no suite; a method"),
        ("simcse.py", METHOD, "name of ours: method=simcse in {folder}/simcse.py; rename yours"),
        ("json.py", METHOD, "name of another module: method=json in {folder}/json.py, `import json` gives "),
        ("margin_loss.txt", METHOD, "no plug-in: plugins={folder}/margin_loss.txt is no .py file; give one,"),
        ("norms.py", SUITE.replace("NEEDS", "NEED"), "missing name: suite=norms has no NEEDS in {folder}/norms.py;"),
        (
            "norms.py",
            SUITE.replace('"norms"', '"transfer"'),
            "name of ours: suite=transfer in {folder}/norms.py; rename",
        ),
    ],
)
def test_what_is_no_plug_in_is_refused_in_one_line(
    write: Write, tmp_path: Path, name: str, text: str, line: str
) -> None:
    assert refused(write(name, text)).startswith(line.format(folder=tmp_path))
    assert registry.list_given() == ()


def test_what_is_not_there_is_refused_in_one_line(write: Write, tmp_path: Path) -> None:
    assert refused("no_such_module").startswith("no such plug-in: plugins=no_such_module; give a folder, a .py file or")
    assert refused("mine/none.py", base=tmp_path).startswith("no such path: plugins=mine/none.py; give a folder")
    write("empty/notes.txt", "")
    assert refused(tmp_path / "empty").startswith(
        f"no plug-in: plugins={tmp_path / 'empty'} has no method and no suite"
    )


def test_two_plug_ins_of_one_name_are_refused_and_one_may_be_given_twice(write: Write, tmp_path: Path) -> None:
    first, second = write("a/margin_loss.py"), write("b/margin_loss.py")
    line = refused(first, second)
    assert (
        line.startswith("two plug-ins of one name: method=margin_loss in ")
        and str(first) in line
        and str(second) in line
    )
    registry.use([first])
    registry.use([tmp_path / "a"])
    assert refused(second).startswith("two plug-ins of one name: method=margin_loss in ")
    assert module_of("margin_loss").__file__ == str(first)


def test_helpers_of_one_name_in_two_folders_are_refused(write: Write, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(f"{folder}/helper_of_mine.py", "")
        write(f"{folder}/loss_{folder}.py", "import helper_of_mine\n" + METHOD)
    line = refused(tmp_path / "a", tmp_path / "b")
    assert line.startswith("two modules of one name: helper_of_mine in several folders of plugins; rename one")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("(Options)", "", "no options: method=margin_loss Config=Config in "),
        ("frozen=True, ", "", "no frozen dataclass: method=margin_loss Config=Config in "),
        ("@dataclass(frozen=True, kw_only=True)", "", "no frozen dataclass: method=margin_loss Config=Config in "),
        (", kw_only=True", "", "positional options: method=margin_loss Config in "),
        ("float = 2.0", "float", "option without a default: method.scale of margin_loss in "),
        ("float = 2.0", "int = 2.5", "wrong default: method=margin_loss in "),
        ("float = 2.0", "list[int] | None = None", "wrong default: method=margin_loss in "),
        ("VERSION = 1", "VERSION = '1'", "wrong version: method=margin_loss VERSION='1' in "),
        (
            "VERSION = 1",
            "VERSION, POOLER = 1, 'max'",
            "no pooler without a projector: method=margin_loss POOLER='max' in ",
        ),
    ],
)
def test_a_config_that_is_none_is_refused_in_one_line(write: Write, before: str, after: str, line: str) -> None:
    assert before in METHOD
    registry.use([write("margin_loss.py", METHOD.replace(before, after))])
    with pytest.raises(ConfigError) as error:
        parse_run({"method": "margin_loss"})
    (problem,) = error.value.problems
    assert problem.startswith(line)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets installed packages offer entry points of methods."""
    points: list[importlib.metadata.EntryPoint] = []

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        return [point for point in points if point.group == group]

    def offer(name: str, *modules: str) -> None:
        registry._entry_points.cache_clear()
        points.extend(importlib.metadata.EntryPoint(name, module, "cse.methods") for module in modules)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_entry_points", registry.functools.cache(registry._entry_points.__wrapped__))
    return offer


def test_an_installed_package_offers_a_method(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: Callable[..., None]
) -> None:
    write("lab_of_mine/__init__.py", "")
    write("lab_of_mine/margin.py")
    monkeypatch.syspath_prepend(tmp_path)
    offered("margin_loss", "lab_of_mine.margin")
    assert "margin_loss" in methods.names() and registry.list_given() == ()
    assert parse_run({"method": "margin_loss"}).options == methods.config_class("margin_loss")()
    assert own_digest("margin_loss") == registry.digest(registry.get("method", "margin_loss"))


def test_entry_points_of_one_name_are_refused_where_the_name_is_used(
    write: Write, offered: Callable[..., None]
) -> None:
    offered("margin_loss", "lab.margin", "other.margin")
    offered("simcse", "lab.simcse")
    with pytest.raises(
        ConfigError, match="two plug-ins of one name: method=margin_loss is offered by lab.margin, other"
    ):
        parse_run({"method": "margin_loss"})
    with pytest.raises(
        ConfigError, match="name of ours: method=simcse is offered by lab.simcse too; rename that entry"
    ):
        parse_run({"method": "simcse"})
    assert refused(write("margin_loss.py")).startswith("two plug-ins of one name: method=margin_loss in ")
    parse_run({"method": "ct"})


def test_the_digest_follows_the_users_code_alone(write: Write) -> None:
    helper = write("helper_of_mine.py", "SCALE = 1\n")
    file = write("margin_loss.py", "import torch, helper_of_mine\nfrom cse_train.losses import info_nce\n" + METHOD)
    registry.use([file])
    first = own_digest("margin_loss")
    file.write_text("# a comment\n" + file.read_text())
    assert own_digest("margin_loss") == first
    helper.write_text("SCALE = 2\n")
    assert own_digest("margin_loss") != first


def test_an_edited_plug_in_is_imported_anew(write: Write) -> None:
    helper = write("helper_of_mine.py", "SCALE = 1\n")
    file = write("margin_loss.py", "from helper_of_mine import SCALE\n" + METHOD)
    registry.use([file])
    assert module_of("margin_loss").SCALE == 1
    registry.use([file])
    before = load_method("margin_loss")
    registry.use([file])
    assert load_method("margin_loss") is before, "what has not changed stays as it is"
    helper.write_text("SCALE = 22\n")
    registry.use([file])
    assert module_of("margin_loss").SCALE == 22


def test_a_snapshot_is_what_workers_import_and_an_edit_afterwards_is_none(write: Write, tmp_path: Path) -> None:
    write("lab/__init__.py", "")
    helper = write("lab/losses.py", "SCALE = 1\n")
    registry.use([write("lab/margin_loss.py", "from .losses import SCALE\n" + METHOD)])
    expected = code_of("margin_loss", ["sts_dev"])
    plugins = snapshot(tmp_path / "storage")
    assert plugins == snapshot(tmp_path / "storage"), "the second driver takes the first one's"
    (folder,) = {plugin.folder for plugin in plugins}
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    assert files == ["lab/__init__.py", "lab/losses.py", "lab/margin_loss.py"]
    helper.write_text("SCALE = 22\n")
    assert code_of("margin_loss", []) != expected
    registry.forget()
    assert (code_problem(expected) or "").startswith("different plug-in: method=margin_loss none on ")
    registry.adopt(plugins)
    assert code_problem(expected) is None and module_of("margin_loss").SCALE == 1
    (line,) = {code_problem({("method", "margin_loss"): "0" * 16})}
    assert line is not None and line.startswith(
        f"different plug-in: method=margin_loss digest={expected['method', 'margin_loss']}"
    )


def test_nothing_is_copied_where_nothing_was_named(tmp_path: Path) -> None:
    assert snapshot(tmp_path) == () and list(tmp_path.iterdir()) == []


def test_a_ledger_alone_runs_no_plug_in(write: Write, tmp_path: Path) -> None:
    """A bundle of somebody else's may name any file here as that of a sweep."""
    file = write("margin_loss.py", METHOD + "\nraise SystemExit('it ran')\n")
    space = write("mine.yaml", SPACE)
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.record_sweep("theirs", SweepSpec({"file": str(space), "space": "mine", "profile": "small", "set": {}}))
    with pytest.raises(ConfigError) as error:
        select("theirs", ledger, None, {})
    (line,) = error.value.problems
    assert line.startswith(f"plug-ins of a ledger's file: sweep=theirs ran {space}, which runs margin_loss.py; give")
    file.write_text(METHOD)
    registry.use([file])
    assert select("theirs", ledger, None, {}).space.method == "margin_loss"


SCORED = """
from cse_train.results import Protocol, Score

NAME = "norms"
COLUMNS = ("norms",)
NEEDS = ()


def evaluate(model, paths):
    protocol = Protocol(suite="norms", pooler=model.pooler, split="test", max_length=8, data_hash="")
    return [Score(suite="norms", metric="mean", value=1.0, protocol=protocol, headline=True)]
"""


def test_a_suite_s_scores_carry_its_code_and_count_until_it_changes(write: Write, tmp_path: Path) -> None:
    registry.use([write("norms.py", SCORED)])
    model = SimpleNamespace(pooler="cls", prompt="")
    (score,) = run_suites.evaluate(model, DataPaths(), ["norms"], {})
    stored = {score.column: score.protocol, "sts_test": Protocol.read({"code_version": "1"}), "mr": Protocol.read({})}
    assert re.fullmatch("1 norms [0-9a-f]{16}", score.protocol.code_version)
    before = suites.data_hash("norms", DataPaths())
    write("norms.py", SCORED + "\n# a comment changes no number\n")
    assert suites.still_valid(stored, DataPaths()) == {"norms", "sts_test", "mr"}
    write("norms.py", SCORED.replace("1.0", "2.0"))
    assert suites.still_valid(stored, DataPaths()) == {"sts_test", "mr"}
    assert suites.data_hash("norms", DataPaths()) != before
    registry.forget()
    assert suites.still_valid(stored, DataPaths()) == {"norms", "sts_test", "mr"}, (
        "without the plug-in nothing is known"
    )


def test_a_users_suite_is_scored_after_ours_and_shown_where_it_was_asked_for(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves in the process changes no score of a suite of ours."""
    registry.use([write("norms.py", SCORED)])
    computed: list[str] = []
    monkeypatch.setattr(run_suites, "_scores", lambda model, paths, name, options: computed.append(name) or [name])
    asked = ["sts_dev", "norms", "generated_dev:5", "norms"]
    assert run_suites.evaluate(SimpleNamespace(), DataPaths(), asked, {}) == ["sts_dev", "norms", "generated_dev:5"]
    assert computed == ["sts_dev", "generated_dev:5", "norms"]


def test_a_library_of_another_environment_is_no_code_of_the_user_s(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = write("env/lib/python3/site-packages/huge_library/__init__.py", "import huge_library.part\n")
    monkeypatch.syspath_prepend(str(library.parents[1]))
    (plugin,) = registry.use([write("mine.py", f"import huge_library\n{METHOD}")], tmp_path)
    assert [*plugin.files()] == ["mine"]


def test_an_error_of_a_users_code_in_a_command_is_no_mistake_of_ours(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = METHOD.replace("length):\n        return None", "length):\n        return len")
    body = body.replace("return None", "return helper.made(backbone)")
    file = write("margin_loss.py", f"import helper\n{body}")
    write("helper.py", "def made(backbone):\n    return backbone.nothing\n")
    monkeypatch.chdir(file.parent)
    words = ["train.corpus=generated", "train.dev=generated_dev:40", "train.encoder=words-l1-h64", "train.examples=32"]
    settings = [word for setting in words for word in ("--set", setting)]
    assert main(["train", "margin_loss", "--plugins", "margin_loss.py", *settings]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    what = "AttributeError: 'Backbone' object has no attribute 'nothing'"
    assert line.startswith(f"cse: error in your own code: {what} ({file.parent / 'helper.py'}:2); ")
    assert "--debug" in line
