"""`cse doctor`: every mistake in one line with its fix, exit code 2; a sound machine exits with 0."""

import contextlib
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.runtime.resources import Node
from cse.cli.app import main
from cse.doctor import checks
from cse.doctor.checks import NodeFacts, compare_nodes
from cse.doctor.upkeep.doctor import products
from cse_train import numerics
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.identity.user_files import add_user_files
from tests.commands import printed, refused
from tests.documents import validated

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: words-l1-h64, train.corpus: %s, train.dev: "generated_dev:16"}
space:
  method.temperature: {grid: [0.05]}
"""
ROOMY = Node(cpus=4, gpus=0, memory_gb=16)


@pytest.fixture(autouse=True)
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder on a machine with room."""
    monkeypatch.chdir(tmp_path)
    for name in ("CSE_DATA", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(checks, "this_machine", lambda: ROOMY)
    return tmp_path


def stopped(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Lines of the findings of `cse doctor` that stop a sweep; it must exit with 2."""
    assert main(("doctor", *options)) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    lines = [line for line in said.out.splitlines() if line.startswith("stop")]
    assert said.out.splitlines()[-1] == f"{len(lines)} of these stop a sweep"
    assert all(";" in line for line in lines), "each has its fix"
    return lines


def test_a_sound_machine_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(SPACE % "generated")
    said = printed(capsys, "doctor", "mine.yaml")
    assert said.endswith("nothing here stops a sweep\n")
    assert "mine: every cell has its inputs" in said and "is not there yet; the first sweep makes it" in said


def test_findings_are_data_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    findings = validated("doctor", printed(capsys, "doctor", "--format", "json"))["rows"]
    assert {finding["part"] for finding in findings} >= {
        "versions",
        "token",
        "machine",
        "storage",
        "ledger",
        "data",
    }
    assert {finding["level"] for finding in findings} <= {"fine", "note"}


def test_several_mistakes_come_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("a file")
    data, storage = stopped(capsys, "--data", "nowhere", "--storage", "taken")[::-1]
    assert "no such path: --data=nowhere; give one that exists" in data
    assert f"storage not writable: storage={Path('taken').resolve()} (" in storage


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--workers", "64"), "a run does not fit: workers=64"),
        (("--gpus-per-worker", "1"), "no GPU: gpus_per_worker=1"),
        (("--address", "head"), "wrong address: address=head; give HOST:PORT"),
        (("--address", "ray://head:10001"), "wrong address: address=ray://head:10001; give HOST:PORT"),
    ],
)
def test_options_that_no_sweep_can_have_are_told(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    (line,) = stopped(capsys, *options)
    assert told in line


def test_authentication_turned_off_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    (line,) = stopped(capsys)
    assert "no token: RAY_AUTH_MODE=disabled" in line


def test_a_nearly_full_disk_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "DISK_GB", 1e9)
    (line,) = stopped(capsys)
    assert f"disk about full: storage={tmp_path / 'results'} has " in line


@pytest.mark.parametrize("there", [True, False])
def test_sqlite_on_a_network_file_system_names_postgresql(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    if there:
        Ledger.open("ledger.db").close()
    mount = SimpleNamespace(mountpoint=str(tmp_path), fstype="nfs4")
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [mount])
    (line,) = stopped(capsys, "--ledger", "ledger.db")
    assert "lies on a network file system (nfs4)" in line and "(PostgreSQL)" in line


def test_a_ledger_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ledger.db").write_text("no database " * 50)
    (line,) = stopped(capsys, "--ledger", "ledger.db")
    assert line.split()[1] == "ledger"


def test_a_ledger_that_is_there_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger.open("ledger.db")
    ledger.record_sweep("one", SweepSpec({}))
    ledger.close()
    assert "ledger.db can be read and written; sweeps: 1" in printed(capsys, "doctor", "--ledger", "ledger.db")


def test_every_page_of_a_ledger_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """No command that lists sweeps comes upon the damage: it is in the table of runs."""
    ledger = Ledger.open("ledger.db")
    for seed in range(200):
        about = {"method": "simcse", "seed": seed, "owner": "me", "identity": {}, "provenance": {}}
        ledger.claim(f"r{seed}", {"note": "x" * 500}, **about)
    ledger.close()
    content = bytearray(Path("ledger.db").read_bytes())
    page = content.rindex(b"x" * 500) // 4096 * 4096
    content[page : page + 8] = b"\xff" * 8
    Path("ledger.db").write_bytes(content)
    (line,) = stopped(capsys, "--ledger", "ledger.db")
    assert "ledger.db is damaged (" in line and line.endswith("; restore a copy or use another --ledger")


@pytest.mark.parametrize(("asked", "level"), [(0.0, "note"), (1.0, "stop")])
def test_a_card_that_torch_cannot_use_counts_where_one_is_asked(
    monkeypatch: pytest.MonkeyPatch, asked: float, level: str
) -> None:
    import torch

    monkeypatch.setattr(checks, "this_machine", lambda: Node(cpus=4, gpus=2, memory_gb=16))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (finding,) = checks.gpus(asked)
    assert finding.level == level and finding.line.startswith("GPUs that torch cannot use: gpus=2 torch=")


def test_a_space_without_its_corpus_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(SPACE % "wiki")
    (line,) = stopped(capsys, "mine.yaml")
    assert line.split()[1] == "space" and "wiki" in line


@pytest.mark.parametrize(("columns", "level"), [(["anchor", "positive", "negative"], "fine"), (["text"], "stop")])
def test_a_corpus_without_the_columns_of_the_objective_stops_a_sweep(
    columns: list[str], level: str, tmp_path: Path
) -> None:
    """A plan said "1 to run" and the doctor "nothing here stops a sweep", and training refused."""
    rows = [",".join(columns), *(",".join(f"a {name} {i}" for name in columns) for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf8")
    text = SPACE.replace("train.corpus: %s, ", "method.objective: triplets, ") + "corpus: t.csv\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf8")
    space = load_space("mine.yaml")
    findings = checks.needs(resolve(space), [1], add_user_files(DataPaths(), space.files), 1)
    assert [finding.level for finding in findings] == [level]


def test_an_unknown_space_is_a_mistake_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "doctor", "E77") == "cse: unknown space: space=E77; did you mean E7?"


def test_an_address_where_nothing_listens_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    (line,) = stopped(capsys, "--address", f"127.0.0.1:{closed}")
    assert f"no Ray cluster: address=127.0.0.1:{closed} (" in line


def test_each_node_is_compared_with_the_driver() -> None:
    here = NodeFacts("head", {"python": "3.11.9", "torch": "2.11"}, "abc")
    answers = {
        "same": here,
        "old": NodeFacts("old", {"python": "3.11.9", "torch": "2.10"}, "abc"),
        "edited": NodeFacts("edited", dict(here.versions), "xyz"),
        "bare": "ModuleNotFoundError: No module named 'cluster'",
    }
    assert [(finding.level, finding.line) for finding in compare_nodes(here, answers)] == [
        ("fine", "same has this code and these versions"),
        ("note", "different version: node=old torch=2.10, here 2.11; install torch 2.11 there"),
        ("stop", "different code: node=edited digest=xyz, here abc; install the same cse-search there"),
        (
            "stop",
            "node without our code: node=bare (ModuleNotFoundError: No module named 'cluster'); "
            "install the same cse-search and Python there",
        ),
    ]


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"torch": 47.0, "oneDNN": 53.0}, "fp32 by oneDNN, 53 GFLOP/s; bf16 as fp32, which is no slower"),
        (
            {"torch": 93.0, "oneDNN": 106.0, "bf16 rows and weights": 210.0},
            "fp32 by oneDNN, 106 GFLOP/s; bf16 by bf16 rows and weights, 210 GFLOP/s",
        ),
    ],
)
def test_the_path_of_each_precision_is_named(
    rates: dict[str, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics, "gemm_rates", lambda: rates)
    assert products() == f"of one thread: {said}"


def test_the_doctor_hides_a_password_of_a_ledger_that_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fine:
        def sweeps(self) -> list[str]:
            return []

        def require_sound(self) -> None:
            pass

        def find_edited(self) -> list[tuple[str, float, float]]:
            return []

        def close(self) -> None:
            pass

    monkeypatch.setattr(checks.Ledger, "open", lambda *given, **options: Fine())
    said = checks.check_ledger("postgresql://me@host/db?password=hunter2")
    assert "hunter2" not in said and "password=***" in said
