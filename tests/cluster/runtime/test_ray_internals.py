"""What Ray does not promise stands in one module; the digest by which workers know the driver's code."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import ray
from packaging.requirements import Requirement
from packaging.version import Version

from cluster.runtime import code_version, ray_internals
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


@pytest.fixture
def fake_package(tmp_path, monkeypatch):
    """All four packages in one folder of our own."""
    for name in code_version.OUR_PACKAGES:
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "a.py").write_text(f"x = '{name}'")
    monkeypatch.setattr(code_version, "package_folder", lambda name: tmp_path / name)
    code_version.code_digest.cache_clear()
    yield tmp_path
    code_version.code_digest.cache_clear()


def digest() -> str:
    code_version.code_digest.cache_clear()
    return code_version.code_digest()


def test_the_digest_follows_content_and_place_of_code_and_data_and_nothing_else(fake_package: Path):
    before = digest()
    (fake_package / "cluster" / "notes.md").write_text("words")
    (fake_package / "cluster" / "__pycache__").mkdir()
    (fake_package / "cluster" / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert digest() == before
    (fake_package / "search_spaces" / "E7.yaml").write_text("version: 1")
    with_yaml = digest()
    (fake_package / "cluster" / "inner" / "a.py").rename(fake_package / "cluster" / "a.py")
    assert len({before, with_yaml, digest()}) == 3


def test_a_difference_is_one_line_that_names_both_and_says_what_to_do(fake_package: Path):
    assert code_version.digest_problem(digest()) is None
    line = code_version.digest_problem("0" * 16)
    assert line is not None and "\n" not in line
    assert digest() in line and "0" * 16 in line and "install the same version" in line


def test_packages_are_found_from_a_folder_with_other_packages_of_that_name(tmp_path):
    """An installed `cse` has no working directory on its path; `-P` is the same for a `-c` command."""
    for name in ("analysis", "search_spaces"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster.py").write_text("raise SystemExit('the wrong one')")
    repo = code_version.package_folder("cluster").parent
    use = "from cluster.runtime.code_version import package_parents; print(package_parents())"
    code = f"import sys; sys.path.insert(0, {str(repo)!r}); {use}"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert str(repo) in done.stdout and str(tmp_path) not in done.stdout


def test_provenance_is_plain_data_with_versions_and_host():
    facts = code_version.provenance()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["versions"]["torch"] and facts["host"] and facts["code_digest"] == code_version.code_digest()


def test_a_file_that_git_does_not_know_is_no_clean_commit(tmp_path, monkeypatch):
    """A method whose module nobody has committed was reported as a clean commit."""
    (tmp_path / "cse_train").mkdir()
    (tmp_path / "cse_train" / "fields.py").touch()
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(code_version, "package_folder", lambda name: tmp_path / name)
    commit = code_version._commit.__wrapped__
    clean = commit()
    assert len(clean) == 40
    (tmp_path / "notes.txt").touch()
    assert commit() == clean, "it is in none of the packages"
    (tmp_path / "cse_train" / "mine.py").touch()
    assert commit() == clean + "+"
