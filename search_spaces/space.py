"""A search-space file as data: axes, fixed settings, search, evaluation, and the published values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from cse_train.fields import Json, Range, Scalar
from cse_train.user_files import UserFile
from search_spaces.domains import Domain
from search_spaces.file_shape import CLOSED, VERSION_ADVICE, Count, Give, Text
from search_spaces.paper import Key, Paper
from search_spaces.trainer import TrainerBlock
from search_spaces.user_data import FileShape

SAMPLERS = Path(__file__).parents[1] / "cluster" / "search" / "samplers"
"""Folder that is the registry of samplers; it is listed here and imported only by a search."""
if TYPE_CHECKING:
    SamplerName = str
else:
    SamplerName = Literal[tuple(sorted(file.stem for file in SAMPLERS.glob("[a-z]*.py")))]


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Settings of a search over a space whose cells are not all run."""

    __pydantic_config__ = CLOSED
    sampler: SamplerName = "tpe"
    """Sampler of cells: in order, uniform random, or Optuna's TPE or Gaussian process."""
    num_samples: Annotated[int, Range(low=1)] | None = None
    """Number of cells to propose, finished ones included; null walks a finite space to its end."""
    scheduler: Literal["asha"] | None = None
    """Scheduler that stops poor trials early, by their best score at equal examples; null for none."""
    grace_fraction: Annotated[float, Range(above=0, high=1)] = 0.2
    """Fraction of a run's examples before the first rung, so that an early dip of the dev score stops no trial."""
    reduction_factor: Annotated[int, Range(low=2)] = 3
    """Reduction factor of ASHA: one trial in this many survives a rung."""
    startup: Annotated[int, Range(low=0)] = 8
    """Number of random cells before TPE or the Gaussian process models anything."""
    seed: Annotated[int, Range(low=0)] = 0
    """Seed of the sampler's own random draws."""


@dataclass(frozen=True)
class ExplicitCell:
    """One listed cell: a row name and the keys that it sets."""

    __pydantic_config__ = CLOSED
    label: Annotated[str, BeforeValidator(str)]
    settings: Annotated[dict[str, Any], Field(alias="set")]


@dataclass(frozen=True)
class Component:
    """One part of a method that an ablation can leave out."""

    off: Mapping[str, Scalar]
    """Dotted key -> value that turns the component off, whatever value the key has."""
    replaced: Mapping[str, Mapping[str, Scalar]]
    """Dotted key -> {value with the component, as text: value without}; under other values it is not there."""

    def changes(self, flat: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns the settings that take the component out of a run's flat configuration; empty where it is absent."""
        if any(str(flat[key]) not in values for key, values in self.replaced.items()):
            return {}
        changes = {key: values[str(flat[key])] for key, values in self.replaced.items()}
        return changes | {key: value for key, value in self.off.items() if flat[key] != value}


MOST_SEEDS = 10_000
"""Largest number of seeds per cell that a count may ask for."""
SET_FOR = "give {suite: {key: value}} such as {transfer_dev: {train.batch_size: 128}}"
OFF_ADVICE = "give {name: {key: value that turns it off}}, or {key: {value: what replaces it}}"
Settings = Annotated[dict[str, Any] | None, Give("give a mapping of dotted keys")]
Seeds = (
    Annotated[Count, Field(ge=1, le=MOST_SEEDS)]
    | Annotated[list[Annotated[Count, Field(ge=0, lt=2**32)]], Field(min_length=1)]
)


@dataclass(frozen=True, kw_only=True)
class SpaceFile:
    """Keys of a space's YAML file.

    pydantic checks these types; the option classes of the methods say what a dotted key may hold.
    """

    __pydantic_config__ = CLOSED
    version: Annotated[Literal[1], VERSION_ADVICE]
    id: Annotated[str, Strict(), Give("give the space a short name such as E7")]
    title: Text = ""
    notes: Text = ""
    plugins: Annotated[tuple[Text, ...], Give("give a list of folders, .py files or modules such as [mine.py]")] = ()
    trainer: TrainerBlock | None = None
    """A training script of the user's own, in place of `method`; bare names are its parameters."""
    method: Any = None
    profile: Text = "small"
    seeds: Annotated[Seeds, Give(f"give a count of at most {MOST_SEEDS} such as 3 or a list such as [0, 1, 2]")] = 3
    set: Settings = None
    space: Settings = None
    cells: Annotated[
        tuple[ExplicitCell, ...], Give("give a list of {label: ..., set: {key: value}}", "wrong cell")
    ] = ()
    evaluate: Annotated[tuple[Text | FileShape, ...], Give("give a list of suites such as [sts_dev]")] = ()
    dev: Text | FileShape | None = None
    """Value of `train.dev`, as a name or as a file of the user's own."""
    corpus: Text | FileShape | None = None
    """Value of `train.corpus`, as a name or as a file of the user's own."""
    forgotten: Annotated[tuple[Text, ...], Give("give a list of columns of `evaluate:` such as [sts_test]")] = ()
    set_for: Annotated[dict[str, dict[str, Any]], Give(SET_FOR)] = field(default_factory=dict)
    search: Settings = None
    paper: Annotated[dict[str, Any] | None, Give("give a mapping")] = None
    components: Annotated[dict[str, Any], Give(OFF_ADVICE)] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Space:
    """A parsed space file, whose cells are spanned by `axes` or listed by `cells`.

    A table of models that are not trained here has neither.
    """

    id: str
    title: str
    file: Path
    plugins: tuple[str, ...] = ()
    """Folders, files and modules of the user's own methods and suites; relative ones start at the file's folder."""
    method: str | None = None
    """Method of all cells; None where `method` is an axis or set by each cell."""
    profile: str = "small"
    seeds: tuple[int, ...] = (0, 1, 2)
    settings: Key = field(default_factory=dict)
    """Dotted keys of settings -> their fixed values (`set:`)."""
    axes: Mapping[str, Domain] = field(default_factory=dict)
    """Dotted key of a setting -> domain of its values.

    Keys in `when:` conditions precede the keys that depend on them.
    """
    cells: tuple[ExplicitCell, ...] = ()
    evaluate: tuple[str, ...] = ()
    """Names of the suites that score each best checkpoint once."""
    forgotten: tuple[str, ...] = ()
    """Columns of rated pairs that the table repeats as change from the encoder's score before training."""
    set_for: Mapping[str, Key] = field(default_factory=dict)
    """Suite -> dotted keys under which each row trains once more, for that suite's column alone."""
    search: SearchConfig | None = None
    paper: Paper | None = None
    components: Mapping[str, Component] = field(default_factory=dict)
    """Name of a component that `cse ablate` can leave out -> how it is left out."""
    notes: str = ""
    files: tuple[UserFile, ...] = ()
    """The user's own corpora and sets that the space names."""
    written: Json = field(default_factory=dict, compare=False)
    """Content of the space's YAML file, with absolute paths."""

    @property
    def axis_names(self) -> list[str]:
        """Axes of the table, in the file's order; for listed cells, every key that one of them sets."""
        keys = dict.fromkeys(key for cell in self.cells for key in cell.settings)
        return list(self.axes) or list(keys)

    @property
    def sampled(self) -> bool:
        """True if a search picks the cells, rather than all being run."""
        return self.search is not None and (self.search.sampler != "grid" or self.search.num_samples is not None)

    def methods(self) -> list[str]:
        """Returns every method that a cell of this space may run."""
        if self.method:
            return [self.method]
        if self.cells:
            return list(dict.fromkeys(str(cell.settings["method"]) for cell in self.cells))
        return [str(name) for name in self.axes["method"].arguments]
