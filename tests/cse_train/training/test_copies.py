"""What of a program's imports is the user's, and that a sweep's copy of it gives what it gives by hand."""

import os
import shutil
import subprocess
import sys
from importlib import util
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from cse_train.plugins import registry
from cse_train.plugins.trainer import Trainer
from tests.cse_train.training.programs import declare, run_program

READS = "from pathlib import Path\nvalue = float(Path(__file__).with_name('value.txt').read_text())\n"
"""A module that reads a file beside it."""
RECORD = "lib/__init__.py,sha256=x,1\nlib/value.txt,,\n../../bin/lib,,\nlib-1.0.dist-info/RECORD,,\n"
LIBRARY = {"lib/__init__.py": READS, "lib/value.txt": "5", "lib-1.0.dist-info/RECORD": RECORD}
PACKAGE = {"pack/__init__.py": "", "pack/deep/__init__.py": READS, "pack/deep/value.txt": "2"}
SPACE_OF_NAMES = {"ns/part.py": READS, "ns/value.txt": "3"}
OF_PACKAGE = ["pack", "pack.deep"]

CASES = {
    "package beside the script": (PACKAGE, {}, "from pack.deep import value", OF_PACKAGE, 2),
    "package in src": ({}, PACKAGE, "import pack.deep\nvalue = pack.deep.value", OF_PACKAGE, 2),
    "namespace": (SPACE_OF_NAMES, {}, "from ns.part import value", ["ns.part"], 3),
    "namespace in src": ({}, SPACE_OF_NAMES, "from ns.part import value", ["ns.part"], 3),
    "namespace in two folders": (
        {"ns/mine.py": "value = 1\n"}, SPACE_OF_NAMES,
        "from ns import mine, part\nvalue = mine.value + part.value", ["ns.mine", "ns.part"], 4,
    ),
    "installed into a folder": ({}, LIBRARY, "from lib import value", [], 5),
    "installed beside the script": (LIBRARY, {}, "from lib import value", [], 5),
    "own module among installed ones": (
        {}, {**LIBRARY, "own.py": "import lib\nvalue = lib.value + 1\n"}, "from own import value", ["own"], 6,
    ),
    "editable": ({}, {**PACKAGE, "pack.egg-info/SOURCES.txt": "pack/__init__.py\n"}, "from pack.deep import value",
                 OF_PACKAGE, 2),
    "path of the script's own": (
        {"libs/here.py": READS, "libs/value.txt": "7", "here.py": "value = 1\n"}, {},
        "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'libs'))\nfrom here import value",
        ["here"], 7,
    ),
}  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def list_modules(trainer: Trainer) -> list[str]:
    """Those that are the user's, without the script."""
    registry.adopt([trainer])
    return sorted({*trainer.files()} - {"mine"})


@pytest.mark.parametrize("case", CASES)
def test_the_users_modules_are_copied_and_run_as_by_hand(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, elsewhere, imports, names, value = CASES[case]
    folder, src = tmp_path / "scripts", tmp_path / "src"
    write(folder, beside)
    write(src, elsewhere)
    monkeypatch.syspath_prepend(src)
    monkeypatch.setenv("PYTHONPATH", f"{src}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    text = f"{imports}\nimport cse\nprint(value)\ncse.report(1, score=value, fraction=1)\n"
    assert list_modules(declare(folder, text, {})) == names
    by_hand = subprocess.run(
        [sys.executable, "mine.py"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    assert float(by_hand) == value
    assert run_program(folder, text, storage=tmp_path / "store").outcome.best == value


def test_a_compiled_module_beside_the_code_is_found(tmp_path: Path) -> None:
    found = util.find_spec("markupsafe._speedups")
    if found is None or not str(found.origin).endswith(tuple(EXTENSION_SUFFIXES)):
        pytest.skip("markupsafe has no compiled module here")
    write(tmp_path, {"fast/__init__.py": "from fast import _speedups\nvalue = float(bool(dir(_speedups)))\n"})
    shutil.copy(str(found.origin), tmp_path / "fast")
    text = "import fast, cse\ncse.report(1, score=fast.value, fraction=1)\n"
    assert list_modules(declare(tmp_path, text, {})) == ["fast"]
    assert run_program(tmp_path, text, storage=tmp_path / "store").outcome.best == 1


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_edited_or_gone_after_the_copy_changes_nothing(gone: bool, tmp_path: Path) -> None:
    write(tmp_path, {**PACKAGE, "pack/deep/other.py": "value = 1\n"})
    text = """
        import pathlib
        place = pathlib.Path("pack/deep/other.py")
        place.unlink() if GONE else place.write_text("value = 2")
        from pack.deep import other, value
        import cse
        cse.report(1, score=other.value + value, fraction=1)
    """.replace("GONE", str(gone))
    assert run_program(tmp_path, text, storage=tmp_path / "store").outcome.best == 3


def test_an_error_in_the_users_package_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = tmp_path / "src"
    write(src, {"pack/__init__.py": "def fail():\n    return {}['x']\n"})
    monkeypatch.syspath_prepend(src)
    monkeypatch.setenv("PYTHONPATH", f"{src}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(ValueError, match=r"KeyError: 'x' \(__init__.py:2 in fail\)"):
        run_program(tmp_path / "scripts", "import pack\npack.fail()", storage=tmp_path / "store")
