"""What --storage may name, and which line each node that cannot take part gets."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.runtime.storage import (
    PROBE,
    StorageAnswer,
    StorageFailed,
    blames_storage,
    check_here,
    inputs_of,
    look,
    problems,
)
from cse.cli.ledgers import storage_folder
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from tests.commands import refused

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: words-l1-h64, train.corpus: generated, train.dev: "generated_dev:16"}
space:
  method.temperature: {grid: [0.05]}
"""
TOKEN = PROBE + "t"


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    return "mine.yaml"


@pytest.mark.parametrize("given", ["s3://bucket/runs", "gs://bucket", "file://other/runs"])
def test_what_is_no_folder_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], space: str, given: str) -> None:
    line = refused(capsys, "run", space, "--storage", given)
    assert line.startswith(f"cse: no folder: storage={given}; ")
    assert "mount it on every node" in line


def test_a_folder_that_cannot_be_written_is_refused_before_ray_starts(
    capsys: pytest.CaptureFixture[str], space: str
) -> None:
    Path("taken").write_text("a file", encoding="utf8")
    line = refused(capsys, "run", space, "--storage", "taken", "--ledger", "ledger.db")
    assert line.startswith(f"cse: storage not writable: storage={Path('taken').resolve()} (")


def test_paths_and_file_uris_name_the_same_folder(tmp_path: Path) -> None:
    assert storage_folder(str(tmp_path / "a b")) == tmp_path / "a b"
    assert storage_folder(f"file://{tmp_path}/a%20b") == tmp_path / "a b"


def test_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_here(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(ConfigError, match="storage not writable"):
        check_here(Path("/proc/nowhere"))


def test_a_node_that_shares_folder_and_data_is_fine(tmp_path: Path) -> None:
    (tmp_path / TOKEN).touch()
    answer = look(str(tmp_path), TOKEN, [str(tmp_path)])
    assert answer.sees and not answer.error and not answer.absent
    assert problems(tmp_path, TOKEN, {"n": answer}) == []


def test_each_lack_of_a_node_is_named_with_its_fix(tmp_path: Path) -> None:
    elsewhere = look(str(tmp_path / "other"), TOKEN, [str(tmp_path / "data")])
    answers: dict[str, StorageAnswer | str] = {
        "a": elsewhere,
        "b": StorageAnswer(host="b", sees=True, error="Read-only file system"),
        "c": StorageAnswer(host="c", sees=True),
        "d": "No module named 'cluster'",
    }
    shared, data, readonly, lost, code = problems(tmp_path, TOKEN, answers)
    assert shared.startswith(f"storage not shared: node=a storage={tmp_path} ") and "mount one shared" in shared
    assert data == f"node without data: node=a path={tmp_path}/data; copy or mount it there"
    assert "node=b" in readonly and "(Read-only file system)" in readonly
    assert "node=c" in lost and "does not arrive here" in lost
    assert code.startswith("node without our code: node=d (No module named 'cluster'); install")


def test_the_token_cache_is_no_input(tmp_path: Path) -> None:
    assert inputs_of(DataPaths(wiki=tmp_path, nli=tmp_path / "absent", cache=tmp_path)) == [tmp_path]


def test_a_file_that_stands_in_for_two_inputs_is_asked_for_once(tmp_path: Path) -> None:
    assert inputs_of(DataPaths(wiki=tmp_path, train_file=tmp_path)) == [tmp_path]


def test_a_ledger_file_on_a_network_file_system_is_refused(
    capsys: pytest.CaptureFixture[str], space: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mount = SimpleNamespace(mountpoint=str(tmp_path), fstype="nfs4")
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [mount])
    line = refused(capsys, "run", space)
    assert "lies on a network file system (nfs4)" in line and "postgresql://" in line


def test_an_error_of_tunes_own_files_is_the_storages_where_that_cannot_be_written(tmp_path: Path) -> None:
    tunes = OSError(30, "Cannot create directory 'results/ray/tune'. Detail: Read-only file system")
    (tmp_path / "file").touch()
    said = "^storage not writable: .*; make it writable: runs are given back"
    with pytest.raises(StorageFailed, match=said), blames_storage(tmp_path / "file"):
        raise tunes
    with pytest.raises(OSError) as raised, blames_storage(tmp_path):
        raise tunes
    assert raised.value is tunes, "the folder is well"
