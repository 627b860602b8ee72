import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runtime import code_version


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
