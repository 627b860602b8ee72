"""What Ray does not promise stands in one module, is there in the installed Ray, and is named nowhere else."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator, Mapping

import pytest
import ray
from packaging.requirements import Requirement
from packaging.version import Version

from cluster.runtime import ray_internals
from tests.test_architecture import REPO, Tree, parsed

HOME = "cluster.runtime.ray_internals"
DOCUMENTED = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS")
PRIVATE_TEXT = re.compile(
    r"ray\.(\w+\.)*_\w.*|.*__internal_head__.*|(RAY|TUNE)_[A-Z_]+|_(memory|system_config|node_ip_address|temp_dir)"
)
"""A private name as a text, a resource, a variable that Ray reads, or a setting of `ray.init`."""


@pytest.mark.parametrize("name", ray_internals.PRIVATE)
def test_ray_has_what_we_take_from_it(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None, f"Ray {ray.__version__} moved {name}: {ray_internals.PRIVATE[name]}"


@pytest.mark.parametrize("text", ray_internals.READ)
def test_ray_reads_what_we_set(text: str) -> None:
    module = ray_internals.READ[text]
    source = inspect.getsource(importlib.import_module(module))
    assert text in source, f"{module} of Ray {ray.__version__} does not read {text} any more"


def test_no_ray_is_installed_in_which_they_were_not_looked_up() -> None:
    needs = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf8"))["project"]["dependencies"]
    (allowed,) = [need.specifier for need in map(Requirement, needs) if need.name == "ray"]
    major, minor = Version(ray.__version__).release[:2]
    assert ray.__version__ in allowed and f"{major}.{minor + 1}.0" not in allowed


def private_names(planted: Mapping[str, str] | None = None) -> Iterator[str]:
    """Everything private of Ray's outside of HOME, by file and line."""
    tree = Tree(planted)
    for module, path in tree.files.items():
        if module != HOME:
            nodes = list(ast.walk(parsed(tree.texts[module])[0]))
            has_ray = any(isinstance(node, ast.Name) and node.id == "ray" for node in nodes) or any(
                name.partition(".")[0] == "ray" for name in tree.imported(module)
            )
            spoken = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if id(node) not in spoken and (name := _private_name(node, has_ray)):
                    yield f"{path}:{node.lineno}: {name} is private to Ray; {HOME} says what we use"


def _private_name(node: ast.AST, has_ray: bool) -> str:
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ray":
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "ray"]
    elif isinstance(node, ast.Attribute) and has_ray and node.attr.startswith("_") and not node.attr.endswith("__"):
        whose = ast.unparse(node.value)
        names = [] if re.fullmatch(r"self(\._\w+)*|cls|os", whose) else [f"{whose}.{node.attr}"]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
        names = [text] if PRIVATE_TEXT.fullmatch(text) and text not in DOCUMENTED else []
        return names[0] if names else ""
    else:
        names = []
    return next((name for name in names if "._" in name), "")


def test_no_other_module_names_what_is_private_to_ray() -> None:
    assert list(private_names()) == []


@pytest.mark.parametrize(
    "text",
    [
        "from ray._private import worker\n",
        "import ray.train.v2._internal.constants\n",
        "import ray; node = ray._private.worker.global_worker.node\n",
        "import ray; id = ray.get_actor('a')._actor_id\n",
        "name = 'ray.tune.execution._private'\n",
        "variables = {'TUNE_MAX_PENDING_TRIALS_PG': '1'}\n",
    ],
)
def test_a_private_name_elsewhere_is_refused_by_file_and_line(text: str) -> None:
    line, *_ = private_names({"cluster/sweep/new_tune.py": text})
    assert line.startswith("cluster/sweep/new_tune.py:1: ")
