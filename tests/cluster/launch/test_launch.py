"""`cse launch`: what travels, what is refused, and what a Ray job would upload."""

import base64
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.launch import files, targets
from cluster.launch.config import load
from cluster.launch.targets import ray_job
from cse.cli.app import main
from cse.cli.extend.new import method_text
from cse_train.fields import ConfigError
from cse_train.plugins import registry
from search_spaces.catalog import load_space
from tests.commands import printed, problems

EXAMPLE = Path(__file__).resolve().parents[3] / "cluster" / "launch" / "cluster.yaml"


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CSE_DATA", "/only/here")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    Path("cluster.yaml").write_text(EXAMPLE.read_text(encoding="utf8"), encoding="utf8")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    return problems(capsys, "launch", *argv)


def change(old: str, new: str) -> None:
    text = Path("cluster.yaml").read_text(encoding="utf8")
    assert old in text
    Path("cluster.yaml").write_text(text.replace(old, new), encoding="utf8")


@pytest.mark.parametrize(("said", "user"), [([], "anna"), (["--user", "ben"], "ben")])
def test_what_was_said_after_the_id_travels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, said: list[str], user: str
) -> None:
    """With whose runs they are: on a cluster every driver may be root's."""
    monkeypatch.setenv("LOGNAME", "anna")
    own = ["--profile", "small", "--seeds", "2", "--workers", "1", "--gpus-per-worker", "0.5", "--data", "/else/data"]
    settings = ["--set", "train.examples=640", "--set", "train.batch_size=32"]
    line = printed(capsys, "launch", "ray-job", "E7", *own, *settings, *said, "--dry-run").splitlines()[0]
    words = shlex.split(line)[shlex.split(line).index("--") + 1 :]
    assert words[:5] == ["python", "-m", "cse", "run", "E7"]
    given = {(words[i], words[i + 1]) for i in range(5, len(words), 2)}
    assert given == {
        ("--storage", "/shared/results"),
        ("--ledger", "postgresql://cse@database/cse"),
        ("--data", "/else/data"),
        ("--profile", "small"),
        ("--seeds", "2"),
        ("--workers", "1"),
        ("--gpus-per-worker", "0.5"),
        ("--set", "train.examples=640"),
        ("--set", "train.batch_size=32"),
        ("--user", user),
        ("--address", "auto"),
    }


@pytest.mark.parametrize(
    ("gpus", "given", "asked"),
    [(1, [], "1"), (1, ["--gpus-per-worker", "0.5"], "0.5"), (1, ["--gpus-per-worker", "0"], "0.0"), (0, [], None)],
)
def test_ranks_take_the_cards_that_the_file_names(
    capsys: pytest.CaptureFixture[str], gpus: int, given: list[str], asked: str | None
) -> None:
    """Without the option a job on cards would train on their nodes' CPUs."""
    change("gpus: 1", f"gpus: {gpus}")
    found = re.findall(r"--gpus-per-worker (\S+?)[ )]", printed(capsys, "launch", "slurm", "E7", *given, "--dry-run"))
    assert found == ([] if asked is None else [asked])


@pytest.mark.parametrize("given", [[], ["--ledger", "/shared/other.db"], ["--ledger", "sqlite:////shared/other.db"]])
def test_a_ledger_that_is_a_file_on_nfs_is_refused_before_the_queue(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    mounts = [SimpleNamespace(mountpoint="/", fstype="ext4"), SimpleNamespace(mountpoint="/shared", fstype="nfs4")]
    monkeypatch.setattr("psutil.disk_partitions", lambda **options: mounts)
    assert main(["launch", "slurm", "E7", "--dry-run"]) == 0, "PostgreSQL"
    capsys.readouterr()
    change("ledger: postgresql://cse@database/cse", "")
    (line,) = refused(capsys, "slurm", "E7", *given, "--dry-run")
    named = given[-1] if given else "/shared/results/ledger.db"
    assert line.startswith(f"cse: a file on nfs4: ledger={named}; SQLite's locks do not hold there: give postgresql:")


def test_a_run_that_needs_more_cards_than_there_are_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = refused(capsys, "slurm", "E7", "--workers", "3", "--dry-run")
    assert line.startswith("cse: a run does not fit: workers=3") and "gpus_per_worker=1" in line


def test_flags_travel_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "ray-job", "E7", "--no-mirror", "--retry-failed", "--seeds", "2", "--dry-run"]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[0])
    assert "True" not in words and {"--no-mirror", "--retry-failed"} <= set(words)
    assert words[words.index("--seeds") + 1] == "2"


def test_a_budget_in_money_travels_with_the_file_s_price(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--budget", "40 EUR", "--budget", "2 h, 50 runs", "--gpus-per-worker", "1"]
    script = printed(capsys, "launch", "slurm", "E7", *limits, "--dry-run")
    assert "--budget '40 EUR' --budget '2 h, 50 runs'" in script and "--price '2.5 EUR'" in script
    assert main(["launch", "ray-job", "E7", *limits, "--price", "3 EUR", "--dry-run"]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[0])
    assert words[words.index("--price") + 1] == "3 EUR" and words.count("--price") == 1


def test_a_job_is_named_after_its_sweep_and_what_travels(capsys: pytest.CaptureFixture[str]) -> None:
    def name(*words: str) -> str:
        (made,) = re.findall("#SBATCH --job-name=(.*)", printed(capsys, "launch", "slurm", *words, "--dry-run"))
        return str(made)

    first = name("E7", "--seeds", "2")
    assert re.fullmatch("cse-e7-[0-9a-f]{4}", first) and name("E7", "--seeds", "2") == first
    assert name("E7", "--seeds", "3") != first and name("E7", "--seeds", "2", "--name", "mine") == "mine"
    assert re.fullmatch("cse-d7-e7-[0-9a-f]{4}", name("D7", "E7"))
    assert len(name(*(f"{letter}{number}" for letter in "DE" for number in range(1, 9)))) == 40


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["E7", "--budget", "100euro"], "wrong budget: budget=100euro; give a number such as 40 runs, "),
        (["E7", "--budget", "40 EUR", "--gpus-per-worker", "0"], "no GPU: budget=40 EUR of runs that ask for none; "),
        (["E7", "--budget", "40 USD"], "two currencies: budget=40 USD, price=2.5 EUR; give"),
        (["E7", "D7", "--budget", "2 h"], "budget of several spaces: budget=2 h; launch each with its own"),
    ],
)
def test_a_wrong_budget_stays_at_home(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    (line,) = refused(capsys, "slurm", *words, "--dry-run")
    assert line.startswith(f"cse: {told}")


@pytest.mark.parametrize("kind", ["ray-job", "kuberay", "slurm"])
def test_every_kind_prints_what_it_would_submit(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    out = printed(capsys, "launch", kind, "D7", "E7", "--dry-run")
    assert "/only/here" not in out
    assert "reproduce D7 E7" in out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("nodes: 2", "node: 2", "unknown key: node=2; did you mean nodes?"),
        ("  partition: gpu", "  partiton: gpu", "unknown key: slurm.partiton=gpu; did you mean slurm.partition?"),
        ("storage: /shared/results", "", "missing value: storage=; give it"),
        ("nodes: 2", "nodes: 0", "out of range: nodes=0; give a number greater than or equal to 1"),
        ("nodes: 2", "nodes: two", "wrong type: nodes='two' is a str; give a valid integer"),
        ("nodes: 2", "nodes: true", "wrong type: nodes=True is a bool; give a valid integer"),
        ("name: cse ", 'name: "c\\ne" ', "line break: name=; write one line"),
        ("  mount: /shared", '  mount: "/a\\nb"', "line break: kuberay.mount=; write one line"),
        ("  claim: cse-shared", "", "missing value: kuberay.claim=; give it"),
        ("version: 1", "", "wrong version: version=None; write version: 1"),
        ("version: 1", "version: true", "wrong version: version=True; write version: 1"),
        ("version: 1", "version: 3", "wrong version: version=3; write version: 1"),
        ("name: cse ", "name: C_S ", "wrong name: name=C_S"),
        ("storage: /shared", "storage: shared", "relative path: storage=shared/results"),
        ("storage: /shared", "storage: s3://us", "no folder: storage=s3://us/results; give a folder that every node"),
        ("price: 2.5 EUR", "price: 2.5", "no currency: price=2.5; give that of an hour of one GPU, such as 2.5 EUR"),
        ("postgresql://cse@", "mysql://cse:hunter2@", "unknown database: ledger=mysql://database/cse; give postgres"),
        ("cse@database", "cse:hunter2@database", "password in a file: ledger=postgresql://cse:***@database/cse"),
    ],
)
def test_a_wrong_cluster_file_is_one_line(capsys: pytest.CaptureFixture[str], old: str, new: str, told: str) -> None:
    change(old, new)
    (line,) = refused(capsys, "slurm", "E7", "--dry-run")
    assert line.startswith(f"cse: cluster.yaml: {told}") and "hunter2" not in line


def test_every_problem_of_a_cluster_file_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    change("nodes: 2", "node: 2")
    change("name: cse ", "name: C_S ")
    change("  python: /shared/venv/bin/python", "  python: 3")
    change("  address: http", "  adress: http")
    lines = [line.removeprefix("cse: cluster.yaml: ") for line in refused(capsys, "slurm", "E7", "--dry-run")]
    assert [line.partition(";")[0] for line in lines] == [
        "wrong name: name=C_S",
        "missing value: ray_job.address=",
        "unknown key: ray_job.adress=http://127.0.0.1:8265",
        "wrong type: slurm.python=3 is a int",
        "unknown key: node=2",
    ]


def test_an_unknown_target_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown target: target=slrum; did you mean slurm?" in " ".join(refused(capsys, "slrum", "E7"))


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("slurm", "E77"), "unknown space: space=E77; did you mean E7?"),
        (("slurm",), "nothing to run: target=slurm"),
        (("slurm", "E7", "--config", "absent.yaml"), "no such file: config=absent.yaml"),
        (("slurm", "E7", "--workers", "40"), "a run does not fit: workers=40"),
        (("slurm", "E7", "--data", "here"), "relative path: data=here"),
        (("slurm", "E7", "--storage", "s3://us/results"), "no folder: storage=s3://us/results; give a folder"),
        (("slurm", "E7", "--set", "train.dev=mine.tsv"), "relative path: --set train.dev=mine.tsv"),
        (("slurm", "E7", "--ledger", "postgresql://me:hunter2@x/y"), "password in a file"),
        (("slurm", "E7", "--set", "train.exampels=3"), "unknown key: train.exampels"),
        (("slurm", "absent.yaml"), "no such file: space=absent.yaml"),
        (("slurm", "E7", "--plugins", "absent.py"), "no such path: plugins=absent.py"),
        (("slurm", "E7", "--profile", "smal"), "unknown profile: profile=smal; did you mean small?"),
        (("slurm", "E7", "--disk-quota", "much"), "no size: disk_quota=much"),
        (("slurm", "E7", "--name", "Mine_1"), "wrong name: name=Mine_1; lower-case letters, digits and -, at most 40"),
        (("slurm", "E7", "--address", "auto"), "address of a driver: address=auto"),
    ],
)
def test_a_wrong_command_line_is_one_line(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], told: str) -> None:
    (line,) = refused(capsys, *argv)
    assert told in line and "hunter2" not in line


def test_an_absent_part_and_storage_outside_the_volume_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    change("storage: /shared/results", "storage: /home/me")
    (line,) = refused(capsys, "kuberay", "E7")
    assert "not on the volume: storage=/home/me" in line
    Path("cluster.yaml").write_text("version: 1\nname: a\nstorage: /a\n", encoding="utf8")
    (line,) = refused(capsys, "kuberay", "E7")
    assert line == "cse: missing part: kuberay=; cse launch kuberay needs it in cluster.yaml"


def test_an_absent_client_is_named_with_the_way_round(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for kind, client in (("slurm", "squeue"), ("kuberay", "kubectl")):
        (line,) = refused(capsys, kind, "E7")
        assert f"no client: {client} is not installed" in line and "--dry-run" in line


def test_an_address_where_nothing_listens_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    change("http://127.0.0.1:8265", "http://127.0.0.1:9")
    (line,) = refused(capsys, "ray-job", "E7")
    assert line.startswith("cse: no Ray dashboard: address=http://127.0.0.1:9; give http://HEAD:8265")


def test_a_refused_token_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import job_submission
    from ray.exceptions import AuthenticationError

    def refuse(address: str) -> None:
        raise AuthenticationError("Forbidden: secret-token")

    monkeypatch.setattr(job_submission, "JobSubmissionClient", refuse)
    (line,) = refused(capsys, "ray-job", "E7")
    assert line.startswith("cse: token refused: address=") and "secret-token" not in line


def test_another_ray_on_the_cluster_is_named_with_both_versions() -> None:
    import ray

    with pytest.raises(ConfigError, match=f"here={ray.__version__} cluster=2.50.0; install ray==2.50.0"):
        ray_job.check_version(SimpleNamespace(_server_ray_version="2.50.0"))


def test_the_example_names_every_key() -> None:
    config, text = load(EXAMPLE), EXAMPLE.read_text(encoding="utf8")
    for block in (config, *(getattr(config, targets.key(name)) for name in targets.names())):
        assert [name for name in type(block).model_fields if f"{name}:" not in text] == []


OWN_SPACE = """version: 1
id: mine
plugins: [methods]
method: {method}
set: {{train.examples: 64, train.warmup_ratio: 1e-5}}
space: {{train.learning_rate: {{grid: [1e-4]}}}}
"""


@pytest.fixture
def own_files(somewhere: Path) -> Iterator[None]:
    """A space, a profile, and a method with a module that it imports."""
    Path("methods", "lab_of_mine").mkdir(parents=True)
    Path("methods", "lab_of_mine", "__init__.py").touch()
    Path("methods", "lab_of_mine", "margin.py").write_text("MARGIN = 1\n", encoding="utf8")
    start = method_text("margin_loss")
    Path("methods", "margin_loss.py").write_text(f"{start}\nfrom lab_of_mine.margin import MARGIN\n", encoding="utf8")
    Path("mine.yaml").write_text(OWN_SPACE.format(method="margin_loss"), encoding="utf8")
    Path("tiny.yaml").write_text("version: 1\ntrain: {encoder: words-l1-h64}\n", encoding="utf8")
    yield
    registry.forget()


@pytest.mark.parametrize("kind", ["ray-job", "slurm", "kuberay"])
def test_files_of_ones_own_travel_by_content(
    own_files: None, capsys: pytest.CaptureFixture[str], somewhere: Path, kind: str
) -> None:
    out = printed(capsys, "launch", kind, "mine.yaml", "--profile", "tiny.yaml", "--dry-run")
    assert str(somewhere) not in out
    (text,) = re.findall(r"cluster.launch.files /shared/results/launched ([\w=-]+) run spaces/mine.yaml --storage", out)
    assert "--profile profiles/tiny.yaml" in out and "--profile tiny.yaml" not in out
    registry.forget()

    place = files.unpack_files(somewhere / "launched", text)
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    assert names == [
        "plugins/lab_of_mine/__init__.py",
        "plugins/lab_of_mine/margin.py",
        "plugins/margin_loss.py",
        "profiles/tiny.yaml",
        "spaces/mine.yaml",
    ]
    space = load_space(place / "spaces" / "mine.yaml")
    assert space.settings == {"train.examples": 64, "train.warmup_ratio": 1e-5}
    (plugin,) = registry.list_given()
    assert plugin.file == (place / "spaces" / ".." / "plugins" / "margin_loss.py")


OWN_DATA = """version: 1
id: mine
method: simcse
corpus: mails.txt
dev: {{file: held/dev.tsv, name: my_dev}}
evaluate: [{{file: {elsewhere}, name: theirs}}]
set: {{train.examples: 64}}
space: {{train.learning_rate: {{grid: [1e-4]}}}}
"""


@pytest.mark.parametrize("lines", [20, 40_000])
def test_data_that_a_space_names_travel_or_are_named_by_their_place(
    somewhere: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, lines: int
) -> None:
    """Small texts beside the space go with it; of what a command line cannot hold, and of data elsewhere, the place."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "test.tsv"
    drawn = random.Random(0)
    pairs = "sentence1\tsentence2\tscore\r\n" + "".join(f"a {i}\tb {i}\t{i % 5}\r\n" for i in range(9))
    Path("held").mkdir()
    for path in (Path("held", "dev.tsv"), elsewhere):
        path.write_bytes(pairs.encode())
    Path("mails.txt").write_text("".join(f"{drawn.getrandbits(64)} words\n" for _ in range(lines)), encoding="utf8")
    Path("mine.yaml").write_text(OWN_DATA.format(elsewhere=elsewhere), encoding="utf8")
    assert main(["launch", "slurm", "mine.yaml", "--dry-run"]) == 0
    (text,) = re.findall(r"cluster.launch.files \S+ ([\w=-]+) run spaces/mine.yaml", capsys.readouterr().out)
    assert len(text) <= files.MOST_FILES
    place = files.unpack_files(somewhere / "launched", text)
    there, here = (load_space(folder / "mine.yaml") for folder in (place / "spaces", somewhere))
    paths = {file.name: file.path for file in there.files}
    moved = place / "spaces" if lines == 20 else somewhere
    assert paths == {"mails": moved / "mails.txt", "my_dev": moved / "held" / "dev.tsv", "theirs": elsewhere}
    assert paths["my_dev"] is not None and paths["my_dev"].read_bytes() == pairs.encode()
    assert there.settings == here.settings and there.evaluate == here.evaluate


@pytest.mark.parametrize("relative", ["script", "data"])
def test_a_trainer_by_relative_paths_is_refused_in_one_line(
    somewhere: Path, capsys: pytest.CaptureFixture[str], relative: str
) -> None:
    Path("train.py").write_text("print(1)\n", encoding="utf8")
    Path("pairs.json").write_text("[]", encoding="utf8")
    places = {"script": "train.py", "data": "pairs.json"}
    places |= {name: str(somewhere / file) for name, file in places.items() if name != relative}
    trainer = f"{{script: {places['script']}, data: [{places['data']}], score: {{name: acc}}}}"
    Path("mine.yaml").write_text(f"version: 1\nid: mine\ntrainer: {trainer}\nspace: {{x: {{grid: [1]}}}}\n")
    (line,) = refused(capsys, "slurm", "mine.yaml", "--dry-run")
    assert "a trainer does not travel:" in line and "by relative paths; give absolute ones" in line
    Path("mine.yaml").write_text(
        Path("mine.yaml").read_text().replace(places[relative], str(somewhere / places[relative]))
    )
    registry.forget()
    assert main(["launch", "slurm", "mine.yaml", "--dry-run"]) == 0
    registry.forget()


def test_too_much_to_bring_is_refused_in_one_line(own_files: None, capsys: pytest.CaptureFixture[str]) -> None:
    noise = base64.b64encode(random.Random(0).randbytes(200_000)).decode()
    Path("methods", "lab_of_mine", "margin.py").write_text(f"MARGIN = '{noise}'\n", encoding="utf8")
    (line,) = refused(capsys, "slurm", "mine.yaml", "--dry-run")
    assert line.startswith("cse: too much to bring: 4 files=") and line.count("100000 at most") == 1


def test_the_driver_starts_in_the_folder_of_its_files(tmp_path: Path) -> None:
    text = files.pack_files({"spaces/mine.yaml": OWN_SPACE.format(method="simcse").replace("plugins: [methods]\n", "")})
    words = [sys.executable, "-m", "cluster.launch.files", str(tmp_path), text, "plan", "spaces/mine.yaml"]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLE.parents[2]), "CSE_DATA": ""}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "1 cell x 3 seeds = 3 runs" in done.stdout
    with pytest.raises(ValueError, match="no place for a file"):
        files.unpack_files(tmp_path / "inner", files.pack_files({"../out.txt": "x"}))
