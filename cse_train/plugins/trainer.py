"""Training script of the user's own as a method: its declaration in a space, and its runs' settings.

Its code never runs here: each run has a process of its own (`cse_train.training.program`).
"""

import dataclasses
import functools
import hashlib
import json
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import new_class
from typing import Any, ClassVar, Literal

from cse_train.fields import ConfigError, Scalar
from cse_train.plugins import source
from cse_train.plugins.options import Options, OwnLoop
from cse_train.plugins.registry import Plugin

PARTS = 1000
"""Length of a run whose trainer reports the fraction that is done: parts of the whole, in place of examples."""
TEMPLATE = re.compile(r"\$\{([^}]*)\}")
"""Pattern of `${NAME}` in a word of a command line."""
OPTION_WORD = re.compile(r"--?[A-Za-z][^=$\s]*")
"""Pattern of a word that is an option without a value; a negative number is none."""
PAIR_WORD = re.compile(r"[^-=$\s][^=$\s]*=")
"""Pattern of the begin of a word `name=value`."""
NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
"""Pattern of what argparse takes for a negative number behind an option."""
PROGRAM_LENGTH = 50
"""Largest number of characters of the program in a trainer's name, which a ledger keeps."""
GIVEN_NAMES = ("seed", "output_dir", "best_dir", "args")
"""Names that a template may use besides parameters.

`${args}` stands for one option for each parameter, `--seed` and `--output_dir`.
"""
BASE_FACTS = ("file", "script", "data", "kind", "module", "options", "folder", "name", "root", "places")
"""Fields of a trainer that say where things lie and are not in its name: it is the same trainer elsewhere."""
LATER_FACTS = ("fits",)
"""Fields of a trainer that were added later; at their default they are not in its name, so that names stay."""

Direction = Literal["max", "min"]
Parameters = tuple[tuple[str, tuple[str, ...]], ...]
"""(name, names of its values' types) of each parameter that a space gives to a script."""


@dataclass(frozen=True, kw_only=True)
class TrainerScore:
    """Score by which the runs of a trainer are judged."""

    name: str
    """Name of the score as the trainer reports it; an evaluation of transformers may put `eval_` before it."""
    direction: Direction = "max"
    scale: float = 1.0
    """Factor of the reported value in tables."""


@dataclass(frozen=True, kw_only=True)
class ArgOption:
    """Option of a command line that appears if it has a value, or if parameters have certain values."""

    option: str
    """Name of the option, such as --warmup-steps or -w."""
    words: tuple[str, ...] = ()
    """Values of the option; a single `${NAME}` of a bool is the option alone for true, and nothing for false."""
    split: bool = False
    """True if the option's value is split at blanks into several words of the command line."""
    when: tuple[tuple[str, Scalar], ...] = ()
    """(parameter, value): the option appears, without words, if all these parameters have these values."""

    def write(self, settings: Mapping[str, Scalar], values: Mapping[str, str]) -> list[str]:
        """Returns the words of the option for a run; none if a value is null."""
        if self.when:
            equal = (settings.get(name) == value for name, value in self.when)
            return [self.option] if all(equal) else []
        name = self.words[0][2:-1] if len(self.words) == 1 else ""
        if isinstance(settings.get(name), bool):
            return [self.option] if settings[name] else []
        filled = [word for text in self.words if (word := _fill(text, values)) is not None]
        return _write_option(self.option, " ".join(filled).split() if self.split else filled)


def _fill(text: str, values: Mapping[str, str]) -> str | None:
    """Returns a word with its parameters' values filled in; None if one of them is null."""
    names = TEMPLATE.findall(text)
    return TEMPLATE.sub(lambda match: values[match[1]], text) if values.keys() >= {*names} else None


def _write_option(option: str, words: list[str]) -> list[str]:
    """Returns an option and its values as words; a single negative number such as -1e-05 is joined to it by =.

    argparse would take such a number for another option.
    """
    is_joined = len(words) == 1 and words[0].startswith("-") and not NEGATIVE.fullmatch(words[0])
    return [f"{option}={words[0]}"] if is_joined and option.startswith("--") else [option, *words] if words else []


@dataclass(frozen=True)
class Trainer(Plugin):
    """Plug-in of kind `method` whose code is a program, declared in the `trainer:` of a space."""

    script: Path = Path()
    """Path of the user's file; `file` is the sweep's copy of it."""
    root: Path = Path()
    """Folder with the modules that the script imports: its own folder, or the sweep's copy of them."""
    places: tuple[tuple[str, str], ...] = ()
    """Copied modules: (top-level module, folder from which it was copied); empty for a script in its own folder."""
    parameters: Parameters = ()
    args: tuple[str | ArgOption, ...] | None = None
    """Words of the command line; None for an option per parameter, `--seed` and `--output_dir`."""
    score: TrainerScore = TrainerScore(name="")
    data: tuple[Path, ...] = ()
    """Files and folders whose content belongs to a run's identity."""
    steps: int | None = None
    """Length of a run in steps, for reports without a fraction; None if they give the fraction."""
    fits: str = ""
    """Rule for a program that trains several times: score the `mean` of folds, or the `last` fit; empty for one fit."""

    @property
    def is_isolated(self) -> bool:
        return True

    def files(self) -> dict[str, Path]:
        """Returns module -> file of the script and its imports, at any depth, except installed packages."""
        distributed = source.list_distributed(self.root)

        def find(module: str) -> Path | None:
            if module == self.module:
                return self.file
            top = module.partition(".")[0]
            base = self.root.joinpath(*module.split("."))
            file = next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)
            if file is not None and top not in distributed:
                return file
            installed = top in source.OUR_PACKAGES or source.is_installed(top)
            return None if installed else source.file_of(module)

        return source.follow_imports(self.roots, lambda module: True, find)

    def move(self, folder: Path, file: Path) -> "Trainer":
        places: dict[str, str] = {}
        for module, copied in self.files().items():
            base = copied.parent if copied.name == "__init__.py" else copied
            places.setdefault(module.partition(".")[0], str(base.parents[module.count(".")]))
        return dataclasses.replace(self, file=file, root=folder, places=tuple(places.items()))

    def declare_options(self) -> type[Options]:
        return _make_options(self.name, self.parameters, self.score, self.data, self.steps, self.fits)

    def arguments(self, settings: dict[str, Scalar], **variables: str) -> list[str]:
        """Returns the command line of a run; a null parameter is left out, so that the script's default applies.

        A word with a null in it is left out, and with it the option whose value it is.
        """
        values = {name: str(value) for name, value in settings.items() if value is not None} | variables
        default = {name: value for name, value in values.items() if name != "best_dir"}
        plain = [word for name, value in default.items() for word in _write_option(f"--{name}", [value])]
        if self.args is None:
            return plain
        words: list[str] = []
        for index, text in enumerate(self.args):
            if isinstance(text, ArgOption):
                words += text.write(settings, values)
            elif text == "${args}":
                words += plain
            elif (word := _fill(text, values)) is not None:
                words.append(word)
            elif self._is_value(index):
                words.pop()
        return words

    def _is_value(self, index: int) -> bool:
        """Returns True if word `index` of `args` is the value of an option, which is the word before it.

        Hydra's `lr=${lr}` behind `--multirun` is none: such words stand one behind the other there. Where each has an
        option before it, as in `--set lr=${lr} --set wd=${wd}`, it is that option's.
        """
        words = self.args or ()
        text, previous = words[index], words[index - 1] if index else ""
        if not (isinstance(text, str) and _is_option(previous)) or text.startswith("-"):
            return False
        pairs = [number for number, word in enumerate(words) if isinstance(word, str) and PAIR_WORD.match(word)]
        return not PAIR_WORD.match(text) or all(number and _is_option(words[number - 1]) for number in pairs)


def _is_option(word: str | ArgOption) -> bool:
    return isinstance(word, str) and OPTION_WORD.fullmatch(word) is not None


def name_of(trainer: Trainer) -> str:
    """Returns a trainer's name in spaces: its script, and a digest that differs between declarations of one script."""
    declaration = {key: value for key, value in dataclasses.asdict(trainer).items() if key not in BASE_FACTS}
    declaration = {key: value for key, value in declaration.items() if key not in LATER_FACTS or value}
    declaration["function"] = ""  # of functions in place of scripts, which there were: names stay
    digest = hashlib.sha256(json.dumps(declaration, sort_keys=True).encode()).hexdigest()[:6]
    return f"{re.sub('[^0-9A-Za-z_.+-]', '_', trainer.script.name)[:PROGRAM_LENGTH]}@{digest}"


def is_program(method: str) -> bool:
    """Returns True if a run's method is a program, by the form of the names that `name_of` gives."""
    return re.search("@[0-9a-f]{6}$", method) is not None


@functools.cache
def _make_options(
    name: str, parameters: Parameters, score: TrainerScore, data: tuple[Path, ...], steps: int | None, fits: str
) -> type[Options]:
    """Builds the class of a trainer's settings: a field for each parameter, null where a run does not give it."""
    body: dict[str, object] = {
        "__module__": __name__,
        "__doc__": f"The parameters of {name}.",
        "__annotations__": {key: _union(kinds) for key, kinds in parameters},
        "_data": data,
        "_remake": (name, parameters, score, data, steps, fits),
        "VERSION": 1,
        "SHARED": {"dev": score.name, "examples": steps or PARTS, "batch_size": 1, "seed": 0},
        "NOTE": _note(name, score, data, fits),
        "TURNED": score.direction == "min",
        **{key: None for key, _ in parameters},
    }
    parameters_class = new_class("Parameters", (TrainerOptions,), exec_body=lambda names: names.update(body))
    return dataclass(frozen=True, kw_only=True)(parameters_class)


def _note(name: str, score: TrainerScore, data: tuple[Path, ...], fits: str) -> str:
    scaled = "" if score.scale == 1 else f" times {score.scale:g}"
    best = f"the {'least' if score.direction == 'min' else 'greatest'} of "
    best += {"": "a run", "last": "a run's last fit", "mean": "each fit of a run, averaged over its fits"}[fits]
    tracked = (
        f"tracked inputs: {', '.join(_name_data(data))}; inputs beyond these are not tracked"
        if data
        else ("no input is declared, and none is tracked")
    )
    return f"{score.name} is what {name.partition('@')[0]} reports{scaled}, {best}; {tracked}."


KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def _union(kinds: tuple[str, ...]) -> Any:
    return functools.reduce(operator.or_, (KINDS[kind] for kind in kinds), None)


class TrainerOptions(Options):
    """Base class of the settings of programs; `_make_options` builds the class of each trainer."""

    PREFIX: ClassVar[str] = ""
    LOOP: ClassVar[OwnLoop | None] = OwnLoop(
        train="cse_train.training.program:train",
        scorer="cse_train.training.program:score_best",
        reader="cse_train.training.program_folder:read_finished",
    )
    _data: ClassVar[tuple[Path, ...]] = ()
    _remake: ClassVar[tuple[Any, ...]] = ()

    def rank_dependent(self) -> bool:
        return True

    def inputs(self) -> dict[str, str]:
        """Returns name of a declared file or folder -> hash of its content; raises ConfigError if one is gone."""
        absent = [path for path in self._data if not path.exists()]
        if absent:
            raise ConfigError([f"no such input: trainer.data={path}; correct the path" for path in absent])
        return dict(zip(_name_data(self._data), map(_hash_content, self._data), strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in self.__annotations__}
        return _remake, (self._remake, values)


def _remake(declared: tuple[Any, ...], values: dict[str, Scalar]) -> Options:
    return _make_options(*declared)(**values)


def _name_data(paths: tuple[Path, ...]) -> list[str]:
    """Returns a distinct name for each path, made of its last part alone."""
    names = [path.name for path in paths]
    return [name if names.index(name) == at else f"{name}.{at + 1}" for at, name in enumerate(names)]


def _hash_content(path: Path) -> str:
    """Returns 16 hex digits over a file's bytes, or over names and bytes of a folder's files without hidden ones."""
    if not path.is_dir():
        return _hash_file(path, *source.state(path))[:16]
    names = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    lines = [
        f"{name}\0{_hash_file(file, *source.state(file))}\0"
        for name, file in sorted(names.items())
        if not any(part.startswith(".") for part in name.split("/"))
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=4096)
def _hash_file(file: Path, changed: int, size: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
