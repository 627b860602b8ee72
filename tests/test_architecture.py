"""The architecture: the table of rooms, and what every module keeps. Read from the syntax trees alone.

A room is a folder of modules, or a single module. `ROOMS` says what each may import beside itself; a longer name is a
room of its own. The table is the documentation: docs/data_flow.md draws the same rooms. A package's own room is its
`__init__` and the modules beside it that its `__all__` names. Every room has a face: the `__all__` of each folder names
the modules, or names of its `__init__`, that other rooms may import, and nothing past it is imported.
"""

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import sides

REPO = Path(__file__).resolve().parents[1]
PACKAGES = ("search_spaces", "cse_train", "cluster", "analysis", "cse")
OURS = (*PACKAGES, "benchmarks", "docs", "tests")
MOST = {"cse_train": (11, 39)}
"""Package -> its most rooms, and arrows between rooms that begin in it."""
AUTHORS = "cse_train.api"
"""The face for authors of plug-ins says to a type checker alone what it loads when it is taken."""
LOADERS = {
    "cse": "what a notebook asks for",
    "cse.cli.app": "the module of a command",
    "cse.cli.extend.schema": "the module of a command, for the type of its answer",
    "cse.cli.loader": "what commands name in `with deferred(__name__):`",
    "cse.experiments.tracking": "the side that has the trackers, where it is installed",
    "cse_train.api": "what a plug-in takes, when it is first taken",
    "cse_train.encoder.card_attention": "the kernels, where there is Triton",
    "cse_train.plugins.registry": "the module of a method or a suite, ours or a user's, by its name",
    "cluster.search.samplers": "the sampler that `search.sampler` names",
    "cluster.launch.targets": "the module of a launch target, by its name",
    "cse.trackers.tools": "the module of a tracker, by its name",
    "cse_train.evaluate.suites.registry": "the modules of its folder, each a suite",
    "cse_train.evaluate.tasks": "the module of a transfer protocol, by its name on the command line",
    "cse.importers.sources": "the module of a tool whose runs are imported, and the tool's package",
    "analysis.ledger.migrations": "the modules of its folder, each a step from one version to the next",
    "analysis.render.formats": "the module of a table format, by its name",
}
"""The modules that import ours by name. Nothing of ours is imported inside a function anywhere."""

SIDES = tuple(f"cse.{side}" for side in sides.SIDES)
"""Rooms that nobody imports."""
WHOLE = sides.needs(*sides.SIDES)
"""A rule about all rooms: without a side some names of a face are nobody's."""
ROOMS: Mapping[str, str] = {
    # one run
    "cse_train": "",
    "cse_train.plugins": "cse_train",
    "cse_train.text": "cse_train",
    "cse_train.encoder": "cse_train cse_train.text",
    "cse_train.methods": "cse_train cse_train.plugins cse_train.text cse_train.encoder",
    "cse_train.config": "cse_train cse_train.plugins cse_train.text cse_train.methods",
    "cse_train.checkpoint": "cse_train cse_train.encoder cse_train.methods cse_train.config",
    "cse_train.evaluate": "cse_train cse_train.plugins cse_train.text cse_train.encoder cse_train.checkpoint",
    "cse_train.training": "cse_train cse_train.plugins cse_train.text cse_train.encoder "
    "cse_train.methods cse_train.config cse_train.checkpoint cse_train.evaluate",
    "cse_train.export": "cse_train cse_train.encoder cse_train.config cse_train.checkpoint cse_train.evaluate",
    "cse_train.api": "cse_train cse_train.plugins cse_train.text cse_train.encoder cse_train.methods",
    # what may vary
    "search_spaces": "cse_train.reading cse_train.fields cse_train.user_files cse_train.config "
    "cse_train.methods cse_train.plugins "
    "cse_train.text cse_train.evaluate.pairs cse_train.evaluate.metric_names cse_train.evaluate.suites",
    "search_spaces.identity": "search_spaces cse_train.fields cse_train.user_files cse_train.data_paths "
    "cse_train.config cse_train.methods cse_train.plugins cse_train.text cse_train.encoder cse_train.evaluate "
    "cse_train.results",
    # from the ledger to a page
    "analysis": "",
    "analysis.documents": "",
    "analysis.run_state": "",
    "analysis.run_folder": "cse_train.files",
    "analysis.sweep_spec": "cse_train.results",
    "analysis.ledger": "analysis.run_state analysis.run_folder analysis.sweep_spec cse_train.results",
    "analysis.matching": "search_spaces.identity search_spaces analysis.run_state analysis.ledger cse_train.config "
    "cse_train.data_paths cse_train.fields",
    "analysis.statistics": "",
    "analysis.frames": "analysis.ledger",
    "analysis.tables": "analysis.documents analysis.run_state analysis.ledger analysis.statistics "
    "cse_train.evaluate.correlation analysis.sweep_spec cse_train.results",
    "analysis.answers.judge": "analysis.statistics analysis.sweep_spec analysis.tables",
    "analysis.render": "analysis.answers.judge analysis.documents analysis.statistics analysis.tables "
    "cse_train.reading",
    "analysis.bundles": "analysis.ledger",
    "analysis.progress": "analysis.documents analysis.run_state analysis.ledger analysis.tables analysis.sweep_spec "
    "cse_train.results cse_train.evaluate.metric_names",
    "analysis.study": "analysis.answers.judge analysis.run_state analysis.ledger analysis.statistics analysis.tables",
    "analysis.figures": "analysis.statistics analysis.tables analysis.study cse_train.files",
    "analysis.report": "analysis.answers.judge analysis.statistics analysis.tables analysis.render analysis.study "
    "analysis.figures cse_train.files",
    "analysis.answers": "analysis.documents search_spaces.identity analysis.matching analysis.answers.judge "
    "analysis.bundles search_spaces analysis.run_folder analysis.run_state analysis.ledger "
    "analysis.statistics analysis.tables analysis.render analysis.study analysis.report "
    "cse_train.fields cse_train.data_paths cse_train.files cse_train.config cse_train.evaluate.metric_names "
    "cse_train.evaluate.suites cse_train.export cse_train.plugins analysis.sweep_spec cse_train.results",
    # many runs
    "cluster": "",
    "cluster.runtime": "cse_train.fields cse_train.data_paths cse_train.training.saver",
    "cluster.plan": "search_spaces.identity analysis.matching "
    "search_spaces analysis.run_state analysis.ledger cse_train.fields cse_train.user_files "
    "cse_train.data_paths cse_train.config cse_train.methods cse_train.plugins cse_train.text cse_train.encoder "
    "cse_train.evaluate cse_train.results",
    "cluster.search": "search_spaces.identity analysis.matching "
    "cluster.plan search_spaces analysis.run_state analysis.ledger cse_train.fields",
    "cluster.slots": "analysis.run_folder analysis.run_state cluster.runtime cse_train.reading cse_train.fields "
    "cse_train.data_paths cse_train.config cse_train.plugins cse_train.results cse_train.training.saver",
    "cluster.sweep": "search_spaces.identity "
    "cluster.plan cluster.runtime cluster.slots analysis.run_folder analysis.run_state "
    "analysis.ledger cse_train.fields cse_train.user_files cse_train.data_paths cse_train.evaluate.suites "
    "cse_train.plugins cse_train.results",
    "cluster.monitor": "cluster.runtime cluster.sweep analysis.run_state analysis.ledger cse_train.reading",
    "cluster.launch": "cluster.runtime search_spaces cse_train.fields cse_train.plugins",
    # the face
    "cse": "",
    "cse.__main__": "cse.cli",
    "cse.experiments": "search_spaces.identity analysis.matching "
    "analysis.answers analysis.answers.judge cluster.plan cluster.search cluster.runtime cluster.sweep cluster.monitor "
    "search_spaces analysis.run_folder analysis.run_state analysis.ledger analysis.statistics analysis.study "
    "analysis.tables cse_train.fields cse_train.data_paths cse_train.files cse_train.config cse_train.checkpoint "
    "cse_train.text "
    "cse_train.encoder cse_train.evaluate cse_train.plugins analysis.sweep_spec cse_train.results",
    "cse.cli": "search_spaces.identity cse analysis.answers cse.experiments cluster search_spaces analysis cse_train",
    # sides: each a command with its code and its page, which can be taken off
    **dict.fromkeys(
        SIDES,
        "search_spaces.identity cse cse.cli analysis.answers cse.experiments cluster search_spaces analysis cse_train",
    ),
}
"""Room -> the rooms it may import; `cse.cli` and sides may import every room but sides."""
IDENTITY = "search_spaces.identity"
DEEPER = tuple(room for room in ROOMS if room not in PACKAGES)
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "ray": ("cluster",),
    "optuna": ("cluster.search", "cse.importers"),
    "psutil": ("analysis.ledger", "cluster.runtime", "cse.doctor"),
    "torch": ("cse_train", "cluster.slots", "cse.doctor"),
    "transformers": ("cse_train",),
    "sentence_transformers": ("cse_train",),
    "typer": ("cse.cli", *SIDES),
    "pydantic": ("search_spaces", "cluster.launch", "cse.cli.extend"),
    "annotated_types": ("search_spaces",),
    "jinja2": ("analysis.render",),
    "markupsafe": ("analysis.render", "cse.site"),
    "matplotlib": ("analysis.figures", "analysis.report"),
    "sqlalchemy": (
        "analysis.ledger",
        "analysis.progress",
        "cluster.search",
        "cluster.monitor",
        "cse.cli",
        "cse.live_page",
    ),
}
"""Library -> the rooms that may import it; a library that is not named here may be imported anywhere."""


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


Import = ast.Import | ast.ImportFrom


def is_deferred(node: ast.stmt) -> bool:
    """`with deferred(__name__):` at the top of a module: imports that wait, which are arrows like all others."""
    calls = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
    return [ast.unparse(call) for call in calls] == ["deferred(__name__)"]


@functools.cache
def parsed(text: str) -> tuple[ast.Module, tuple[tuple[Import, bool], ...], bool]:
    """The tree; each import, and whether it is a statement of the module itself; whether any import is by name."""
    tree = ast.parse(text)
    direct = {id(node) for part in tree.body for node in (part.body if is_deferred(part) else [part])}
    imports = tuple((node, id(node) in direct) for node in ast.walk(tree) if isinstance(node, Import))
    return tree, imports, any(imports_by_name(node) for node in ast.walk(tree))


def imports_by_name(node: ast.AST) -> bool:
    """`importlib.import_module`, or the loader of commands, which does the same."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "cse.cli.loader" and "load" in [alias.name for alias in node.names]
    return isinstance(node, ast.Attribute) and node.attr == "import_module"


class Tree:
    """The modules of the packages, with what each imports; `planted` adds text to a file, or a file."""

    def __init__(self, planted: Mapping[str, str] | None = None) -> None:
        paths = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]
        texts = {path.relative_to(REPO): path.read_text(encoding="utf8") for path in paths}
        for file, text in (planted or {}).items():
            texts[Path(file)] = texts.get(Path(file), "") + text
        self.files = {self._name(path): path for path in texts}
        self.texts = {self._name(path): text for path, text in texts.items()}
        self.imports = {name: parsed(text)[1] for name, text in self.texts.items()}
        self.faces = {name: face_of(self.texts[name]) for name, path in self.files.items() if path.stem == "__init__"}
        """Folder -> what its `__all__` names; None without one."""

    @staticmethod
    def _name(path: Path) -> str:
        return ".".join(path.with_suffix("").parts).removesuffix(".__init__")

    def imported(self, name: str) -> Iterator[str]:
        """The modules that a module imports, at any depth."""
        return (other for node, _ in self.imports[name] for other in self.modules(node))

    def modules(self, node: Import) -> list[str]:
        """The modules of a statement: `a.b` of `from a import b` where b is a module, else a."""
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        module = node.module if node.level == 0 else "relative import"
        full = [f"{module}.{alias.name}" for alias in node.names]
        return [name if name in self.files else str(module) for name in full]


def face_of(text: str) -> tuple[str, ...] | None:
    """The texts of a module's `__all__`; None without one."""
    for node in parsed(text)[0].body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return tuple(ast.literal_eval(node.value))
    return None


@functools.cache
def beside(package: str) -> tuple[str, ...]:
    """A package, and the modules of its own room."""
    face = face_of((REPO / package / "__init__.py").read_text(encoding="utf8")) or ()
    return package, *(f"{package}.{name}" for name in face if f"{package}.{name}" not in ROOMS)


def room_of(module: str) -> str | None:
    """The room with the longest name that fits, or a package's own room."""
    if within(module, "search_spaces"):
        return IDENTITY if within(module, IDENTITY) else "search_spaces"
    fits = [room for room in DEEPER if within(module, room)]
    own = (package for package in PACKAGES if module == package or within(module, *beside(package)[1:]))
    return max(fits, key=len, default=next(own, None))


def allowed(room: str, module: str) -> bool:
    if room in ("cse.cli", *SIDES):
        return within(module, *PACKAGES) and room_of(module) not in {*SIDES} - {room}
    names = ROOMS[room].split()
    deeper = [name for name in names if name not in PACKAGES]
    return room_of(module) in (room, *names) or within(module, *deeper)


def problems(tree: Tree) -> list[str]:
    """Every rule that a module breaks, one line each."""
    found = [*_imports(tree), *_hidden_imports(tree), *_past_faces(tree), *_circles(tree), *_folders(tree)]
    return sorted(dict.fromkeys(found))


def _imports(tree: Tree) -> Iterator[str]:
    for name in tree.files:
        room = room_of(name)
        if room is None:
            yield f"{name}: in no room of ROOMS"
            continue
        for other in tree.imported(name):
            library = other.partition(".")[0]
            if library in LIBRARIES and not within(name, *LIBRARIES[library]):
                yield f"{name}: imports {library}, which is for {', '.join(LIBRARIES[library])}"
            if library in OURS and not (other in tree.files and allowed(room, other)):
                yield f"{name}: room {room} must not import {other}"
            if other.startswith("relative"):
                yield f"{name}: {other}"


def _hidden_imports(tree: Tree) -> Iterator[str]:
    """Imports of ours that are no statement of the module itself: in a function, or for the type checker alone."""
    for name, imports in tree.imports.items():
        if parsed(tree.texts[name])[2] and name not in LOADERS:
            yield f"{name}: imports by name, which is for {', '.join(LOADERS)}"
        for node, direct in imports:
            if not direct and name != AUTHORS:
                ours = [other for other in tree.modules(node) if within(other, *OURS)]
                yield from (f"{name}: imports {other} below the top of the module" for other in ours)
            if isinstance(node, ast.ImportFrom) and node.module and within(node.module, *PACKAGES):
                private = [
                    alias.name for alias in node.names if alias.name.startswith("_") and not alias.name.endswith("__")
                ]
                yield from (f"{name}: imports the private {node.module}.{one}" for one in private)


def _taken(tree: Tree, name: str) -> Iterator[tuple[str, str]]:
    """(folder, what is taken from it) of a module's imports from other rooms, for every folder on the way."""
    for node, _ in tree.imports[name]:
        for module in tree.modules(node):
            room = room_of(module)
            if module not in tree.files or room is None or room == room_of(name):
                continue
            parts = module.split(".")
            folders = [".".join(parts[:count]) for count in range(room.count(".") + 1, len(parts))]
            yield from ((folder, parts[folder.count(".") + 1]) for folder in folders)
            if module in tree.faces and isinstance(node, ast.ImportFrom) and module == node.module:
                taken = [alias.name for alias in node.names if f"{module}.{alias.name}" not in tree.files]
                yield from ((module, part) for part in taken)


def _past_faces(tree: Tree) -> Iterator[str]:
    """Imports of what no `__all__` on the way names, and what an `__all__` names for nobody."""
    used: dict[str, set[str]] = {}
    for name in tree.files:
        for folder, part in _taken(tree, name):
            used.setdefault(folder, set()).add(part)
            if part not in (tree.faces.get(folder) or ()):
                yield f"{name}: imports {folder}.{part}, which is past the face of {folder}"
    for folder, face in tree.faces.items():
        modules = [part for part in face or () if f"{folder}.{part}" in tree.files]
        yield from (
            f"{folder}: its face has {part}, which no other room imports"
            for part in modules
            if part not in used.get(folder, ()) and not _written(tree, folder, part)
        )


def _written(tree: Tree, folder: str, part: str) -> bool:
    """Whether another room has a module's whole name as a text, by which it is imported elsewhere."""
    others = (text for name, text in tree.texts.items() if not within(name, folder))
    return any(f"{folder}.{part}" in text for text in others)


def _circles(tree: Tree) -> Iterator[str]:
    files = {
        name: {other for other in tree.imported(name) if other in tree.files and other != name} for name in tree.files
    }
    rooms: dict[str, set[str]] = {}
    for name, others in files.items():
        mine = str(room_of(name))
        rooms.setdefault(mine, set()).update({str(room_of(other)) for other in others} - {mine})
    yield from (f"circle of files: {' -> '.join(circle)}" for circle in circles(files))
    yield from (f"circle of rooms: {' -> '.join(circle)}" for circle in circles(rooms))


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Some circle through each node that lies on one, as the nodes in order."""
    done: set[str] = set()
    found = []

    def walk(node: str, path: list[str]) -> None:
        if node in path:
            found.append([*path[path.index(node) :], node])
            return
        if node not in done:
            for other in sorted(edges.get(node, ())):
                walk(other, [*path, node])
            done.add(node)

    for node in sorted(edges):
        walk(node, [])
    return found


def _folders(tree: Tree) -> Iterator[str]:
    for path in tree.files.values():
        if path.stem in ("utils", "common", "helpers", "misc"):
            yield f"{path}: a name that says nothing"
    for folder in {path.parent for path in tree.files.values() if not path.name.startswith("__")}:
        if folder / "__init__.py" not in tree.files.values():
            yield f"{folder}: no __init__.py that says what the room is for"


@WHOLE
def test_the_house_keeps_its_rules() -> None:
    assert problems(Tree()) == []


@WHOLE
def test_every_room_exists_and_says_what_it_is_for() -> None:
    texts = Tree().texts
    assert [room for room in ROOMS if room not in texts] == []
    assert [room for room in ROOMS if not ast.get_docstring(parsed(texts[room])[0])] == []


@pytest.mark.parametrize("package", MOST)
def test_a_package_has_few_rooms_and_few_arrows_and_uses_them(package: str) -> None:
    tree, rooms = Tree(), [room for room in ROOMS if within(room, package)]
    arrows = [(room, other) for room in rooms for other in ROOMS[room].split()]
    most_rooms, most_arrows = MOST[package]
    assert len(rooms) <= most_rooms and len(arrows) <= most_arrows, (len(rooms), len(arrows))
    used = {(room_of(name), room_of(other)) for name in tree.files for other in tree.imported(name)}
    assert [arrow for arrow in arrows if arrow not in used] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_of_a_package_has_a_face(package: str) -> None:
    faces = Tree().faces
    assert [folder for folder, face in faces.items() if within(folder, package) and face is None] == []


PLANTS = [
    (
        "cluster/plan/cost.py",
        "import cluster.plan.planner\n",
        "circle of files: cluster.plan.cost -> cluster.plan.plan",
    ),
    ("analysis/ledger/places.py", "from analysis.tables.spec import plain\n", "circle of rooms: analysis.tables -> "),
    ("analysis/render/grid.py", "import torch\n", "analysis.render.grid: imports torch, which is for cse_train"),
    ("analysis/tables/spec.py", "import cse_train.fields\n", "room analysis.tables must not import cse_train.fields"),
    ("cse_train/training/loop.py", "from ray import train\n", "cse_train.training.loop: imports ray"),
    ("cse_train/losses.py", "from cse_train import methods\n", "room cse_train must not import"),
    (
        "cse_train/training/fit.py",
        "from cse_train.evaluate.classifiers import fit\n",
        "cse_train.training.fit: imports cse_train.evaluate.classifiers, which is past the face of cse_train.evaluate",
    ),
    (
        "cluster/plan/cost.py",
        "from cse_train.methods import PLUGINS_ADVICE\n",
        "cluster.plan.cost: imports cse_train.methods.PLUGINS_ADVICE, which is past the face of cse_train.methods",
    ),
    (
        "analysis/answers/build.py",
        "import analysis.ledger.places\n",
        "analysis.ledger.places, which is past the face",
    ),
    ("cse/cli/app.py", "import cluster.sweep.dispatcher\n", "dispatcher, which is past the face of cluster.sweep"),
    (
        "search_spaces/space.py",
        "import search_spaces.user_data.hidden\n",
        "room search_spaces must not import search_sp",
    ),
    ("cse_train/nowhere.py", "", "cse_train.nowhere: in no room of ROOMS"),
    ("cse_train/export/lineage.py", "import cse_train.methods.base\n", "room cse_train.export must not import cse_tr"),
    ("cluster/sweep/tune.py", "import cse.cli.app\n", "room cluster.sweep must not import cse.cli.app"),
    (
        "analysis/answers/build.py",
        "import cse.site.content\n",
        "room analysis.answers must not import cse.site",
    ),
    ("cse/cli/app.py", "import cse.doctor.checks\n", "room cse.cli must not import cse.doctor.checks"),
    ("cse/site/page.py", "import cse.compare.comparison\n", "room cse.site must not import cse.compare.comparison"),
    ("cse/cli/app.py", "from tests import conftest\n", "room cse.cli must not import tests"),
    (
        "analysis/answers/build.py",
        "def f():\n    from search_spaces import cells\n",
        "imports search_spaces.cells below the",
    ),
    (
        "analysis/answers/build.py",
        "with deferred(__name__):\n    from cse.cli import app\n",
        "must not import cse.cli.app",
    ),
    ("cse/cli/app.py", "if TYPE_CHECKING:\n    from search_spaces import cells\n", "search_spaces.cells below the top"),
    (
        "analysis/answers/build.py",
        "import importlib\nimportlib.import_module('x')\n",
        "answers.build: imports by name",
    ),
    ("analysis/answers/build.py", "from search_spaces.cells import _x\n", "imports the private search_spaces.cells._x"),
    ("cluster/plan/utils.py", "", "cluster/plan/utils.py: a name that says nothing"),
    ("cluster/new.py", "", "cluster.new: in no room of ROOMS"),
]


@pytest.mark.parametrize(("file", "text", "line"), PLANTS, ids=[f"{file} {line[:30]}" for file, _, line in PLANTS])
def test_what_is_planted_is_refused_by_name(file: str, text: str, line: str) -> None:
    found = problems(Tree({file: text}))
    assert any(line in problem for problem in found), found
