"""`trainer:` in a space: a program of the user's own, whose parameters the bare names are."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cse_train.fields import ConfigError
from cse_train.plugins import registry
from search_spaces.cells import resolve
from search_spaces.parse import parse_file, parse_written
from search_spaces.space import Space

BASE: dict[str, Any] = {
    "version": 1,
    "id": "mine",
    "trainer": {"script": "train.py", "score": {"name": "dev_spearman", "scale": 100}, "data": ["pairs.json"]},
    "seeds": 2,
    "space": {"loss": {"grid": ["mnrl", "cosent"]}, "rate": {"grid": [1, 0.5]}},
}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes a script, its data, and the space with changed keys; None takes a key away."""
    (tmp_path / "train.py").write_text("print('no code of this file runs in a plan')\nraise SystemExit(3)\n")
    (tmp_path / "pairs.json").write_text("[]")

    def written(**changes: Any) -> Path:
        space = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
        file = tmp_path / "mine.yaml"
        file.write_text(yaml.safe_dump(space))
        return file

    yield written
    registry.forget()


def test_bare_names_are_the_scripts_parameters_and_nothing_of_a_method_is_a_setting(write: Write) -> None:
    resolved = resolve(parse_file(write()))
    (first, *_), count = resolved.cells(), len(resolved.cells())
    assert (count, resolved.space.axis_names) == (4, ["loss", "rate"])
    method = first.flat["method"]
    assert method == "train.py@d6e4da", "names of trainers stay"
    assert first.run(1).flat() == {
        "method": method,
        "train.dev": "dev_spearman",
        "train.examples": 1000,
        "train.batch_size": 1,
        "train.seed": 1,
        "loss": "mnrl",
        "rate": 1.0,
    }
    assert type(first.flat["rate"]) is float


def test_the_program_has_its_name_wherever_it_lies_and_another_declaration_another(write: Write) -> None:
    file = write()
    space = parse_file(file)
    assert space.written["trainer"]["script"] == str(file.parent / "train.py")
    assert space.written["trainer"]["data"] == [str(file.parent / "pairs.json")]
    assert parse_written(space.written, Path("elsewhere.yaml")).method == space.method
    assert parse_file(write(space=dict(reversed(BASE["space"].items())))).method == space.method
    other = {**BASE["trainer"], "score": {"name": "dev_spearman", "scale": 1}}
    assert parse_file(write(trainer=other)).method != space.method


def block(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**BASE["trainer"], **changes}.items() if value is not None}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"method": "simcse"}, "not with a trainer: method=simcse is of a method of ours"),
    ({"components": {"x": {"rate": 1}}}, "not with a trainer: components={'x': {'rate': 1}}"),
    ({"set": {"train.encoder": "x"}}, "not with a trainer: train.encoder=x is a setting of our own training"),
    ({"space": {"method.p": {"grid": [1]}}}, "not with a trainer: method.p="),
    ({"dev": "sts_dev"}, "not with a trainer: dev=sts_dev"),
    ({"set": {"seed": 3}}, "wrong parameter: seed; seeds come from `seeds:` or --seeds"),
    ({"set": {"a-b": 3}}, "wrong parameter: a-b; give a name of letters, digits and _"),
    ({"set": {"output_dir": "x"}}, "wrong parameter: output_dir; it is given to every run"),
    ({"trainer": "train.py"}, "wrong type: trainer=train.py; give {script: train.py"),
    ({"trainer": block(script="gone.py")}, "no such file: trainer.script=gone.py"),
    ({"trainer": block(script="train.sh")}, "no Python: trainer.script=train.sh; give a .py file"),
    ({"trainer": block(script=None)}, "missing key: trainer.script=null; give it"),
    ({"trainer": block(function="train.py:train")}, "unknown key: trainer.function=train.py:train;"),
    ({"trainer": block(scripts="train.py")}, "unknown key: trainer.scripts=train.py; did you mean script?"),
    ({"trainer": block(score=None)}, "missing key: trainer.score=null; give it"),
    ({"trainer": block(score={"name": "eval_loss"})}, "no direction: trainer.score.name=eval_loss; give `direction:"),
    ({"trainer": block(score={"name": "sts_dev"})}, "name of a suite: trainer.score.name=sts_dev is a suite of ours"),
    ({"trainer": block(score={"name": "x", "scale": 0})}, "no score: trainer.score: name=x, scale=0"),
    (
        {"trainer": block(score={"name": "x", "way": 0})},
        "wrong type: trainer.score={'name': 'x', 'way': 0}; give {name",
    ),
    ({"trainer": block(length={"steps": 0})}, "trainer.length={'steps': 0}; give {steps: 1000}"),
    ({"trainer": block(args=["--l", "${los}"])}, "unknown name: trainer.args has ${los}; did you mean loss?"),
    ({"trainer": block(args=["--l", "${loss}", "${seed}"])}, "not passed on: rate is in no word of trainer.args"),
    ({"trainer": block(args=[{"--l": "${los}"}])}, "unknown name: trainer.args has ${los}; did you mean loss"),
    (
        {"trainer": block(args=[{"l": "${loss}"}])},
        "no option: trainer.args has {l: ...}; begin it with -, or give l=${x}",
    ),
    ({"trainer": block(args=[{"--l": {"when": {"los": 1}}}])}, "unknown name: trainer.args has ${los}; did you mean"),
    ({"trainer": block(args=[{"--l": {"wen": {"loss": 1}}}])}, "words such as [--lr, '${learning_rate}', {--fp16"),
    ({"trainer": block(args=["--l", "${loss}", "${rate}"])}, "not passed on: seed is in no word of trainer.args"),
]


@pytest.mark.parametrize(("changes", "line"), WRONG, ids=[line[:48] for _, line in WRONG])
def test_a_mistake_is_one_line(write: Write, changes: dict[str, Any], line: str) -> None:
    file = write(**changes)
    with pytest.raises(ConfigError) as error:
        parse_file(file)
    (problem,) = error.value.problems
    assert line in problem, problem


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"rat": 1}, "--set: unknown key: rat=1; did you mean rate?"),
        ({"rate": "fast"}, "--set: wrong type: rate='fast' is a str; give null or float"),
        ({"train.encoder": "x"}, "--set: unknown key: train.encoder=x"),
    ],
)
def test_a_wrong_setting_of_the_command_line_is_one_line(write: Write, overrides: Any, line: str) -> None:
    space = parse_file(write())
    with pytest.raises(ConfigError) as error:
        resolve(space, overrides=overrides)
    assert str(error.value).startswith(line)


def _words(space: Space, **changes: Any) -> list[str]:
    plugin: Any = registry.get("method", str(space.method))
    words: list[str] = plugin.arguments({"loss": "mnrl", "rate": 0.5, **changes}, seed="1", output_dir="out")
    return words


def test_a_script_gets_an_option_for_each_parameter_or_what_args_say(write: Write) -> None:
    plain = ["--loss", "mnrl", "--rate", "0.5", "--seed", "1", "--output_dir", "out"]
    assert _words(parse_file(write())) == plain
    assert _words(parse_file(write()), rate=None) == [*plain[:2], *plain[4:]]
    wandb = ["${args}"]
    assert _words(parse_file(write(trainer=block(args=wandb)))) == plain
    pairs = ["--l", "${loss}", "--r", "${rate}", "--s=${seed}"]
    assert _words(parse_file(write(trainer=block(args=pairs))), rate=None) == ["--l", "mnrl", "--s=1"]
    hydra = ["model.loss=${loss}", "optim.rate=${rate}", "seed=${seed}", "hydra.run.dir=${output_dir}", "x=1"]
    assert _words(parse_file(write(trainer=block(args=hydra)))) == [
        "model.loss=mnrl", "optim.rate=0.5", "seed=1", "hydra.run.dir=out", "x=1",
    ]  # fmt: skip


NULLS: list[tuple[list[Any], list[str]]] = [
    (["--seed", "${seed}", "--big", "--rate=${rate}", "${loss}"], ["--seed", "1", "--big", "mnrl"]),
    (["--multirun", "rate=${rate}", "loss=${loss}", "seed=${seed}"], ["--multirun", "loss=mnrl", "seed=1"]),
    (["-m", "rate=${rate}", "loss=${loss}", "seed=${seed}"], ["-m", "loss=mnrl", "seed=1"]),
    (["--set", "rate=${rate}", "--set", "loss=${loss}", "-s", "seed=${seed}"], ["--set", "loss=mnrl", "-s", "seed=1"]),
    (["--set", "rate=${rate}", "loss=${loss}", "seed=${seed}"], ["--set", "loss=mnrl", "seed=1"]),
    (["--offset", "-1", "${rate}", "${loss}", "${seed}"], ["--offset", "-1", "mnrl", "1"]),
    (["--offset=-1", "${rate}", "${loss}", "${seed}"], ["--offset=-1", "mnrl", "1"]),
    (["--", "${rate}", "${loss}", "${seed}"], ["--", "mnrl", "1"]),
    (["train", "${rate}", "--loss", "${loss}", "${seed}"], ["train", "--loss", "mnrl", "1"]),
    (["--name", "run-${rate}", "--loss", "${loss}", "${seed}"], ["--loss", "mnrl", "1"]),
    (["--loss", "${loss}", "-r", "${rate}", "--seed", "${seed}"], ["--loss", "mnrl", "--seed", "1"]),
    (["--fast", {"--rate": "${rate}"}, "${loss}", "${seed}"], ["--fast", "mnrl", "1"]),
    (["--fast", {"--rates": ["${rate}", "2", "${loss}"]}, "${seed}"], ["--fast", "--rates", "2", "mnrl", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(("args", "words"), NULLS, ids=[" ".join(map(str, args)) for args, _ in NULLS])
def test_null_leaves_out_its_own_argument_and_nothing_else(write: Write, args: list[Any], words: list[str]) -> None:
    assert _words(parse_file(write(trainer=block(args=args))), rate=None) == words


def test_flags_lists_names_with_hyphens_and_negative_numbers_are_said_plainly(write: Write) -> None:
    args: list[Any] = [
        *({"--loss": "${loss}"}, {"--learning-rate": "${rate}"}, {"-s": "${seed}"}),
        {"--fp16": "${fp16}"},
        {"--no-fp16": {"when": {"fp16": False}}},
        {"--layers": {"words": "${layers}"}},
        {"--betas": ["0.9", "${beta}"]},
    ]
    names = {"fp16": {"grid": [True, False]}, "layers": {"grid": ["1 2", "-1"]}, "beta": {"grid": [0.99]}}
    space = parse_file(write(trainer=block(args=args), space={**BASE["space"], **names}))
    begin = ["--loss", "mnrl", "--learning-rate", "0.5", "-s", "1"]
    on = _words(space, fp16=True, layers="1 2", beta=0.99)
    assert on == [*begin, "--fp16", "--layers", "1", "2", "--betas", "0.9", "0.99"]
    off = _words(space, fp16=False, layers="-1", beta=None)
    assert off == [*begin, "--no-fp16", "--layers", "-1", "--betas", "0.9"]
    assert _words(space, fp16=None, layers=None, beta=-0.5)[6:] == ["--betas", "0.9", "-0.5"]
    tiny = _words(space, rate=-1e-05, fp16=True, layers=None, beta=None)
    assert tiny[2] == "--learning-rate=-1e-05", "argparse takes it for an option behind a blank"
    assert _words(parse_file(write()), rate=-1e-05)[2:4] == ["--rate=-1e-05", "--seed"]
    assert _words(parse_file(write()), rate=-1)[2:4] == ["--rate", "-1"]


def test_a_parameter_that_counts_under_a_condition_is_null_elsewhere(write: Write) -> None:
    space = {**BASE["space"], "scale": {"choice": [10, 20], "when": {"loss": "mnrl"}}}
    resolved = resolve(parse_file(write(space=space, search={"sampler": "grid"})))
    assert {(cell.flat["loss"], cell.flat["scale"]) for cell in resolved.cells()} == {
        ("mnrl", 10), ("mnrl", 20), ("cosent", None),
    }  # fmt: skip
