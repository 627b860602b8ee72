import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import packages


@pytest.fixture
def fake_package(tmp_path, monkeypatch):
    """All four packages in one folder of our own."""
    for name in packages.OURS:
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "a.py").write_text(f"x = '{name}'")
    monkeypatch.setattr(packages, "package_folder", lambda name: tmp_path / name)
    packages.code_digest.cache_clear()
    yield tmp_path
    packages.code_digest.cache_clear()


def digest() -> str:
    packages.code_digest.cache_clear()
    return packages.code_digest()


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
    assert packages.digest_problem(digest()) is None
    line = packages.digest_problem("0" * 16)
    assert line is not None and "\n" not in line
    assert digest() in line and "0" * 16 in line and "install the same version" in line


def test_a_driver_in_a_folder_with_its_own_analysis_moves_away(tmp_path, monkeypatch):
    user = tmp_path / "user"
    (user / "analysis").mkdir(parents=True)
    monkeypatch.chdir(user)
    assert packages.leave_user_folder(tmp_path / "results" / "deep") == user
    assert Path.cwd() == tmp_path / "results" / "deep"


def test_packages_are_found_from_a_folder_with_other_packages_of_that_name(tmp_path):
    """An installed `cse` has no working directory on its path; `-P` is the same for a `-c` command."""
    for name in ("analysis", "search_spaces"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster.py").write_text("raise SystemExit('the wrong one')")
    repo = packages.package_folder("cluster").parent
    code = f"import sys; sys.path.insert(0, {str(repo)!r}); import cluster.packages as p; print(p.package_parents())"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert str(repo) in done.stdout and str(tmp_path) not in done.stdout


def test_provenance_is_plain_data_with_versions_and_host():
    found = packages.provenance()
    assert json.loads(json.dumps(found)) == found
    assert found["versions"]["torch"] and found["host"] and found["code_digest"] == packages.code_digest()
