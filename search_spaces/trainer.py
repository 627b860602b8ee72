"""The `trainer:` block of a space: a user's own training program, whose parameters are the space's bare names."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from cse_train import fields
from cse_train.evaluate.metric_names import needs_direction
from cse_train.evaluate.suites import registry as suites
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.plugins import registry as plugins
from cse_train.plugins.options import OPTION_HOOKS
from cse_train.plugins.trainer import GIVEN_NAMES, TEMPLATE, ArgOption, Parameters, Trainer, TrainerScore, name_of
from search_spaces.file_shape import CLOSED, Count, Give, Number, Text, brief, read

BLOCK = "trainer"
"""Key of a space file that names a training program of the user's own."""
METHOD_KEYS = ("method", "components", "set_for", "dev", "corpus", "profile")
"""Keys of a space file that describe a shipped or plug-in method, and exclude `trainer:`."""
SCORE_ADVICE = Give("give {name: dev_spearman_cosine, direction: max, scale: 100}")
DRAWN_KINDS = {"uniform": "float", "loguniform": "float", "randint": "int"}
"""Word of a domain without a list of values -> type of the values that it draws."""


@dataclass(frozen=True, kw_only=True)
class ScoreBlock:
    """`trainer.score`: the reported value by which a run is judged."""

    __pydantic_config__ = CLOSED
    name: Text
    direction: Literal["max", "min"] | None = None
    """Better direction of the score, max or min; max by default, except for a loss, which must say."""
    scale: Number = 1.0
    """Factor for reported values, such as 100 for points."""


@dataclass(frozen=True, kw_only=True)
class LengthBlock:
    """`trainer.length`: the length of a run in steps."""

    __pydantic_config__ = CLOSED
    steps: Annotated[Count, Field(ge=1)]
    """Steps of a whole run, for programs that report steps and not a fraction of the run."""


@dataclass(frozen=True, kw_only=True)
class WhenBlock:
    """Command-line option that is given, without a value, where parameters have these values."""

    __pydantic_config__ = CLOSED
    when: dict[Text, Scalar]


@dataclass(frozen=True, kw_only=True)
class WordsBlock:
    """Command-line option whose value is several words."""

    __pydantic_config__ = CLOSED
    words: Text


ArgBlock = Text | dict[Text, Text | tuple[Text, ...] | WhenBlock | WordsBlock]
"""One word of a command line, or `--option: value`, which is left out where the value is null or false."""
ARGS_ADVICE = Give("give words such as [--lr, '${learning_rate}', {--fp16: '${fp16}'}]")


@dataclass(frozen=True, kw_only=True)
class TrainerBlock:
    """The `trainer:` block of a space file; relative paths count from that file."""

    __pydantic_config__ = CLOSED
    script: Text
    """Path of a .py file that is run as it is, in its own folder."""
    args: Annotated[tuple[ArgBlock, ...] | None, ARGS_ADVICE] = None
    """The script's command line; by default an option for each parameter, --seed and --output_dir."""
    score: Annotated[ScoreBlock, SCORE_ADVICE]
    data: Annotated[tuple[Text, ...], Give("give a list of files and folders such as [pairs.json]")] = ()
    """Files and folders that the program reads; their content hashes belong to a run's signature."""
    fits: Literal["last", "mean"] | None = None
    """Fit that counts for a program that trains several times: the mean of folds, or the last fit alone."""
    length: Annotated[LengthBlock | None, Give("give {steps: 1000}")] = None


def _read_trainer(raw: Json, folder: Path) -> tuple[Trainer | None, list[str]]:
    """Reads the trainer of a space.

    Returns None where it has no `trainer:` or one that cannot be used, and every problem.
    """
    block = raw.get(BLOCK)
    if BLOCK not in raw:
        return None, []
    if not isinstance(block, Mapping):
        return None, [f"wrong type: trainer={brief(block)}; give {{script: train.py, score: {{name: ...}}}}"]
    problems = [
        f"not with a trainer: {key}={brief(raw[key])} is of a method of ours; remove it, or `trainer:`"
        for key in METHOD_KEYS
        if key in raw
    ]
    problems += [
        f"not with a trainer: {key}={brief(value)} is a setting of our own training; name a parameter of the script"
        for key, value in list_settings(raw)
        if key == "method" or key.startswith(("train.", "method."))
    ]
    file, lines = read(TrainerBlock, block, "trainer.")
    problems += lines or _check_block(file)
    if problems:
        return None, problems
    script = (folder / Path(file.script).expanduser()).resolve()
    parameters = _read_parameters(raw)
    if script.suffix != ".py":
        problems = [f"no Python: trainer.script={file.script}; give a .py file"]
    elif not script.is_file():
        problems = [f"no such file: trainer.script={file.script}; {script} is not there"]
    problems += _check_names(parameters)
    args = None if file.args is None else tuple(word for block in file.args for word in _read_words(block))
    problems += _check_args(args, [name for name, _ in parameters])
    if problems:
        return None, problems
    scale, direction = float(file.score.scale), file.score.direction or "max"
    score = TrainerScore(name=file.score.name, direction=direction, scale=scale)
    trainer = Trainer(
        "method", "", script.stem, file=script, script=script, root=script.parent,
        parameters=parameters, args=args, score=score,
        data=tuple((folder / Path(text).expanduser()).resolve() for text in file.data),
        steps=file.length.steps if file.length else None, fits=file.fits or "",
    )  # fmt: skip
    return dataclasses.replace(trainer, name=name_of(trainer)), []


def adopt_trainer(raw: Json, folder: Path) -> tuple[Json, list[str]]:
    """Returns a space's YAML with the trainer registered as its method, and every problem."""
    trainer, problems = _read_trainer(raw, folder)
    rest = {key: value for key, value in raw.items() if key != BLOCK}
    if trainer is None:
        return (rest if problems else raw), problems
    try:
        plugins.adopt([trainer])
    except ConfigError as error:
        return rest, error.problems
    return {**rest, "method": trainer.name}, []


def place_trainer(block: Any, folder: Path) -> Any:
    """Returns the `trainer:` block with absolute paths."""
    if not isinstance(block, Mapping):
        return block
    placed = {key: _place(value, folder) if key == "script" else value for key, value in block.items()}
    if isinstance(data := block.get("data"), list):
        placed["data"] = [_place(each, folder) for each in data]
    return placed


def _place(text: Any, folder: Path) -> Any:
    return str((folder / Path(text).expanduser()).resolve()) if isinstance(text, str) and "\0" not in text else text


def _check_block(file: TrainerBlock) -> list[str]:
    problems = []
    if file.score.direction is None and needs_direction(file.score.name):
        problems.append(f"no direction: trainer.score.name={file.score.name}; give `direction: min`, or max")
    if suites.is_known(file.score.name):
        line = f"trainer.score.name={file.score.name} is a suite of ours"
        problems.append(f"name of a suite: {line}; give the name that the trainer reports")
    if not file.score.name.strip() or not 0 < file.score.scale < float("inf"):
        line = f"trainer.score: name={file.score.name}, scale={file.score.scale:g}"
        problems.append(f"no score: {line}; give a name, and a finite scale above 0")
    return problems


def list_settings(raw: Json) -> Iterable[tuple[str, object]]:
    """Yields the (name, value) pairs of a space's parameters: under `set`, `space`, and in cells."""
    for name in ("set", "space"):
        if isinstance(settings := raw.get(name), Mapping):
            yield from settings.items()
    for cell in cells if isinstance(cells := raw.get("cells"), list) else ():
        if isinstance(cell, Mapping) and isinstance(cell.get("set"), Mapping):
            yield from cell["set"].items()


def _read_parameters(raw: Json) -> Parameters:
    """Returns each parameter with the types of its values in the space, by name; an int counts as a float."""
    kinds: dict[str, set[str]] = {}
    for name, value in list_settings(raw):
        kinds.setdefault(name, set()).update(_list_kinds(value))
    return tuple(
        (name, tuple(sorted(types - ({"int"} if "float" in types else set())))) for name, types in sorted(kinds.items())
    )


def _list_kinds(value: Any) -> set[str]:
    """Returns the names of the types of a setting's values; null fits any parameter."""
    if not isinstance(value, Mapping):
        return {type(value).__name__} & {"bool", "int", "float", "str"}
    kinds = {DRAWN_KINDS[word] for word in value if word in DRAWN_KINDS}
    listed = (each for word in ("grid", "choice") if isinstance(value.get(word), list) for each in value[word])
    return kinds.union(*map(_list_kinds, listed))


def _check_names(parameters: Parameters) -> list[str]:
    """Returns a line for each name that cannot be an option of a command line."""
    lines = {
        **dict.fromkeys(("seed", "train.seed"), "seeds come from `seeds:` or --seeds"),
        **dict.fromkeys(GIVEN_NAMES[1:], "it is given to every run; choose another name"),
        **dict.fromkeys((*OPTION_HOOKS, "method"), "the name is taken; write another option by `args:`"),
    }
    wrong = {name: lines.get(name, "") for name, _ in parameters}
    no_word = "give a name of letters, digits and _, and its option by `args:`, as {--warmup-steps: '${warmup_steps}'}"
    return [
        f"wrong parameter: {fields.brief(name)}; {why or no_word}"
        for name, why in wrong.items()
        if why or not name.isidentifier()
    ]


def _read_words(block: ArgBlock) -> Iterator[str | ArgOption]:
    if isinstance(block, str):
        yield block
        return
    for option, value in block.items():
        if isinstance(value, WhenBlock):
            yield ArgOption(option=option, when=tuple(value.when.items()))
        elif isinstance(value, WordsBlock):
            yield ArgOption(option=option, words=(value.words,), split=True)
        else:
            yield ArgOption(option=option, words=(value,) if isinstance(value, str) else tuple(value))


def _check_args(args: tuple[str | ArgOption, ...] | None, names: list[str]) -> list[str]:
    """Returns a line for each template without a parameter, and for each parameter or seed that reaches no script."""
    if args is None:
        return []
    words = [text for word in args for text in (word.words if isinstance(word, ArgOption) else (word,))]
    references = [name for text in words for name in TEMPLATE.findall(text)]
    references += [name for word in args if isinstance(word, ArgOption) for name, _ in word.when]
    problems = [
        f"unknown name: trainer.args has ${{{fields.brief(name)}}}; {fields.nearest(name, [*names, *GIVEN_NAMES])}"
        for name in dict.fromkeys(references)
        if name not in (*names, *GIVEN_NAMES)
    ]
    problems += [
        f"no option: trainer.args has {{{word.option}: ...}}; begin it with -, or give {word.option}=${{x}}"
        for word in args
        if isinstance(word, ArgOption) and not word.option.startswith("-")
    ]
    absent = [] if problems or "args" in references else [name for name in (*names, "seed") if name not in references]
    return problems + [f"not passed on: {name} is in no word of trainer.args; add ${{{name}}}" for name in absent]
