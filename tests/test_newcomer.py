"""A newcomer's day with the wheel alone: a corpus, a dev set, a method and spaces of their own, and their mistakes."""

import json
import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.rows import RunRow
from tests.docs.snippets import blocks
from tests.wheel import called

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPACE = """version: 1
id: two
plugins: [tension.py]
method: tension
seeds: 1
dev: {file: dev.tsv, name: my_dev}
set:
  train.corpus: file
  train.encoder: words-l1-h64
  train.examples: 64
  train.batch_size: 8
  train.evaluations: 2
space:
  method.negatives: {grid: [1, 3]}
"""
WORDS = "the river old bridge far garden house of a green small lamp under stone by water".split()
(TENSION,) = (block.text for block in blocks("python") if block.page == "docs/your_method.md")


class Newcomer:
    """Their folder, and the command there."""

    def __init__(self, cse: Path, folder: Path) -> None:
        self.cse, self.folder = cse, folder
        self.of_mails: set[str] = set()
        """Signatures of the runs on mails.txt; the others saw letters.txt."""

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return called(self.cse, self.folder, *words)

    def says(self, *words: str) -> str:
        """What a command prints that succeeds."""
        done = self.call(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def refused(self, *words: str) -> str:
        """The line of a command that ends with exit code 2."""
        done = self.call(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def runs(self, results: str = "results") -> list[RunRow]:
        ledger = Ledger.open(self.folder / results / "ledger.db", create=False)
        try:
            return ledger.runs()
        finally:
            ledger.close()


@pytest.fixture(scope="module")
def newcomer(cse_of_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """A folder with their files, and an `analysis` package of their own (N10)."""
    folder = tmp_path_factory.mktemp("newcomer")
    drawn = random.Random(0)
    sentences = [" ".join(drawn.choices(WORDS, k=8)) for _ in range(160)]
    for name, part in (("mails.txt", sentences[:80]), ("letters.txt", sentences[80:])):
        (folder / name).write_text("".join(f"{sentence}\n" for sentence in part), encoding="utf8")
    pairs = [f"{left}\t{right}\t{i % 5}\n" for i, (left, right) in enumerate(pairwise(sentences[:60]))]
    (folder / "dev.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(pairs), encoding="utf8")
    (folder / "tension.py").write_text(TENSION, encoding="utf8")
    (folder / "two.yaml").write_text(SPACE, encoding="utf8")
    (folder / "analysis").mkdir()
    (folder / "analysis" / "__init__.py").write_text("raise ImportError('the wrong analysis')\n", encoding="utf8")
    made = Newcomer(cse_of_wheel, folder)
    assert "2 done, 0 failed" in made.says("run", "two.yaml", "--train-file", "mails.txt", "--track", "tensorboard")
    made.of_mails = {run.signature for run in made.runs()}
    assert "2 done, 0 failed" in made.says("run", "two.yaml", "--train-file", "letters.txt")
    return made


def test_runs_on_two_corpora_are_no_seeds_of_each_other(newcomer: Newcomer) -> None:
    assert len(newcomer.runs()) == 4
    best = newcomer.says("best", "two.yaml", "--top", "9", "--format", "json")
    cells = json.loads(best)["cells"]
    assert [cell["n"] for cell in cells] == [1, 1, 1, 1]
    first, second = (newcomer.says("table", "two.yaml", "--train-file", f"{name}.txt") for name in ("mails", "letters"))
    assert "2 runs on other inputs or by other code: not shown" in first and first != second
    trials = json.loads(newcomer.says("trials", "two.yaml", "--format", "json"))["rows"]
    assert len({trial["identity"]["corpus"] for trial in trials}) == 2
    assert "two" in newcomer.says("report", "two.yaml")


def test_edited_code_is_said_before_anything_is_reused(newcomer: Newcomer) -> None:
    method = newcomer.folder / "tension.py"
    method.write_text(TENSION.replace(".mean()", ".sum()"), encoding="utf8")
    try:
        line = newcomer.refused("run", "two.yaml", "--train-file", "mails.txt")
        assert "changed code: method=tension, " in line and "--rerun" in line and "--keep" in line
    finally:
        method.write_text(TENSION, encoding="utf8")


def test_moved_results_export_and_a_lost_run_is_trained_again(newcomer: Newcomer) -> None:
    shutil.copytree(newcomer.folder / "results", newcomer.folder / "moved")
    where = ("--ledger", "moved/ledger.db", "--storage", "moved")
    best = max(newcomer.runs("moved"), key=lambda run: run.best or 0.0)
    model = ("--to", "model", "--plugins", "tension.py")
    newcomer.says("export", best.signature, *model, *where)
    assert f"{best.best:.2f}" in newcomer.says("eval", "model", "--suite", "{file: dev.tsv, name: my_dev}")

    shutil.rmtree(newcomer.folder / "moved" / best.folder)
    assert "--retrain-missing" in newcomer.refused("export", best.signature, "--to", "other", *model[2:], *where)
    text = "mails.txt" if best.signature in newcomer.of_mails else "letters.txt"
    again = ("run", "two.yaml", "--train-file", text, "--retrain-missing", *where)
    assert "1 done, 0 failed" in newcomer.says(*again)
    (run,) = (run for run in newcomer.runs("moved") if run.signature == best.signature)
    assert run.best == best.best


def test_a_test_set_selects_nothing(newcomer: Newcomer) -> None:
    assert "train.dev=sts_test" in newcomer.refused("plan", "two.yaml", "--set", "train.dev=sts_test")


def test_names_of_theirs_do_not_break_ours(newcomer: Newcomer) -> None:
    version = newcomer.says("--version")
    python = str(newcomer.cse.parent / "python")
    code = "import cse; print('cse', cse.__version__); print(len(cse.frames.runs('results/ledger.db')))"
    done = subprocess.run([python, "-c", code], cwd=newcomer.folder, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["cse", version.split()[-1], "4"], done.stderr


def test_harm_is_said(newcomer: Newcomer) -> None:
    """Both runs lie below their encoder's untrained mean on a dev set of theirs, under a method of theirs."""
    said = newcomer.says("table", "two.yaml", "--train-file", "mails.txt")
    assert "2 of 2 runs are not 0.5 points above no training (my_dev" in said


def test_every_command_takes_space_and_sweep_and_suggests_names(newcomer: Newcomer) -> None:
    for command in ("best", "table", "report", "trials", "status"):
        newcomer.says(command, "two", *(("--plugins", "tension.py") if command in ("table", "report") else ()))
        newcomer.says(command, "two.yaml")
    assert (
        "sweep=two" in (line := newcomer.refused("table", "two")) and "--plugins" in line
    )  # no code of a ledger's runs
    line = newcomer.refused("table", "twoo")
    assert "did you mean two" in line and len(line) < 300
    assert "unknown method: method=tensoin" in newcomer.refused("train", "tensoin", "--plugins", "tension.py")


def test_an_error_in_their_method_has_its_line(newcomer: Newcomer) -> None:
    broken = TENSION.replace("packed = ", "packed = batch.nothing or ")
    (newcomer.folder / "broken.py").write_text(broken, encoding="utf8")
    (number,) = (i for i, line in enumerate(broken.splitlines(), 1) if "batch.nothing" in line)
    settings = ("train.corpus=generated", "train.encoder=words-l1-h64", "train.examples=64", "train.batch_size=8")
    words = [word for setting in (*settings, "train.dev=generated_dev:40") for word in ("--set", setting)]
    done = newcomer.call("train", "broken", "--plugins", "broken.py", "--to", "nowhere", *words)
    assert done.returncode != 0 and f"broken.py:{number}" in done.stderr and "nothing" in done.stderr


def test_a_method_begins_with_a_command(newcomer: Newcomer) -> None:
    newcomer.says("new", "method", "echo")
    assert "echo: keeps the contract" in newcomer.says("check-method", "echo.py")
    newcomer.says("new", "space", "echoes", "--method", "echo")
    assert "to run" in newcomer.says("plan", "echoes.yaml")


def test_a_space_travels_to_a_cluster(newcomer: Newcomer) -> None:
    (newcomer.folder / "cluster.yaml").write_text(
        'version: 1\nname: tiny\nstorage: /tmp/nowhere\ncpus: 2\nray_job: {address: "http://127.0.0.1:1"}\n'
    )
    words = ("launch", "ray-job", "two.yaml", "--dry-run", "--train-file")
    assert "relative path: train_file=mails.txt" in newcomer.refused(*words, "mails.txt")
    said = newcomer.says(*words, str(newcomer.folder / "mails.txt"))
    assert "http://127.0.0.1:1" in said and "two.yaml" in said


def test_a_tracker_has_the_sweep(newcomer: Newcomer) -> None:
    pytest.importorskip("tensorboard", reason="no tensorboard: pip install 'cse-search[tensorboard]'")
    assert list((newcomer.folder / "results").rglob("events.out.tfevents*"))
