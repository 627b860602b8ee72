"""docs/your_trainer.md: its spaces are planned, its loops run, its script is planned as it stands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from cse_train.plugins.trainer import Trainer
from cse_train.results import Outcome
from cse_train.training.program import train
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.commands import printed

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your_trainer.md").read_text(encoding="utf8")
SCRIPT, BY_ARGUMENTS, LOOP, RESUMED, LIGHTNING = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SPACE, OF_OPTIONS, OF_ARGUMENTS, OF_RESUMED = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLE = """
import cse
from transformers import TrainingArguments

args = TrainingArguments(output_dir="elsewhere", learning_rate=1.0, per_device_train_batch_size=8, fp16=True)
given = [args.learning_rate, args.per_device_train_batch_size, args.eval_steps, args.seed, args.fp16]
assert given == [2e-5, 16, 50, 0, False] and args.output_dir != "elsewhere", given
cse.report(1, score=args.learning_rate, fraction=1)
"""
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^\$ (cse .*)$", PAGE, re.MULTILINE)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's folder with the files of the page."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"train.py": SCRIPT, "losses.yaml": SPACE, "mine.py": RESUMED, "mine.yaml": OF_RESUMED}.items():
        Path(name).write_text(text, encoding="utf8")
    Path("pairs.json").write_text("[]")
    Path("my-encoder").mkdir()
    yield tmp_path
    registry.forget()


def _run(space: str, folder: Path) -> Outcome:
    cell = resolve(load_space(space)).cells()[0]
    return train(cell.run(0), DataPaths(), folder / "attempt-1", lambda point: False)


def test_the_options_of_the_page_are_left_out_where_they_are_null(folder: Path) -> None:
    Path("options.yaml").write_text(OF_OPTIONS)
    space = load_space("options.yaml")
    plugin = registry.require("method", str(space.method))
    assert isinstance(plugin, Trainer)
    flags = {True: ["--fp16"], False: ["--no-fp16"]}
    for fp16, flag in flags.items():
        words = plugin.arguments({"warmup": None, "fp16": fp16, "layers": "1 2 3", "beta": 0.99}, seed="0")
        assert words == ["--seed", "0", *flag, "--layers", "1", "2", "3", "--betas", "0.9", "0.99"]


def test_the_plan_counts_the_runs_and_knows_no_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [words[0] for words in COMMANDS] == ["plan", "doctor", "run", "table", "compare", "export"]
    said = printed(capsys, *COMMANDS[0])
    assert "4 cells x 3 seeds = 12 runs, 12 unique: 0 done, 12 to run" in said and "left: unknown" in said
    assert "wiki" not in said and "docs/results" not in said


def test_the_script_with_checkpoints_trains_and_its_least_loss_is_the_best(folder: Path) -> None:
    outcome = _run("mine.yaml", folder)
    assert (len(outcome.points), outcome.best) == (10, -0.1 / 10)
    assert float((folder / "attempt-1" / "best" / "model.txt").read_text()) == 0.01


def test_a_script_without_options_gets_the_arguments_of_the_space(folder: Path) -> None:
    pytest.importorskip("accelerate")  # without it transformers makes no training arguments
    for name, text in {"sweep.py": BY_ARGUMENTS, "by.yaml": OF_ARGUMENTS, "example.py": EXAMPLE}.items():
        Path(name).write_text(text, encoding="utf8")
    assert _run("by.yaml", folder).best == pytest.approx(100 * 2e-5)


def test_the_loop_reports_in_a_sweep_and_runs_without_one(folder: Path) -> None:
    exec(compile(LOOP, "loop.py", "exec"), {})
    Path("loop.py").write_text(LOOP, encoding="utf8")
    Path("loop.yaml").write_text(
        "version: 1\nid: loop\ntrainer: {script: loop.py, score: {name: accuracy}}\nspace: {x: {grid: [1]}}\n"
    )
    assert _run("loop.yaml", folder).best == 1 - 1 / 11


def test_the_callback_for_lightning_has_ten_lines_and_its_hook() -> None:
    names: dict[str, object] = {}
    pytest.importorskip("lightning")
    exec(compile(LIGHTNING, "reports.py", "exec"), names)
    assert "on_validation_end" in vars(names["Reports"])
