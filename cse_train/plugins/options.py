"""What a method says of its settings, without torch: `Options`, of which every method's `Config` is one."""

import difflib
from collections.abc import Iterable, Mapping
from inspect import get_annotations
from types import FunctionType
from typing import ClassVar, NamedTuple

from cse_train.fields import Added, ConfigError, Scalar

ALIKE = 0.7
"""How near to a hook's name another one is taken for it, misspelt."""


class OwnLoop(NamedTuple):
    """What trains, scores and knows runs in place of ours, each as `module:name`."""

    train: str
    """As `cse_train.training.loop:train`."""
    scorer: str
    """As `cse_train.evaluate.score:score_checkpoint`."""
    reader: str
    """As `cse_train.training.finished:read_finished`."""


class Options:
    """The settings of a method: a frozen keyword-only dataclass whose fields are what a space may vary.

    Each field has a default, best the paper's, and is a bool, int, float, str, Literal or one of them or None. The
    names below are the hooks: what a run's signature and its checks ask of the settings. A name that nearly is a hook's
    is refused.
    """

    VERSION: ClassVar[int]
    """Raised whenever the numbers of a run change; each method writes its own, `VERSION = 1` at first."""
    ADDED: ClassVar[Mapping[str, Added]] = {}
    """Options that came after runs had been trained: those runs keep their signatures."""
    LIKE: ClassVar[str | None] = None
    """A method whose learning rate it has in profiles that do not name it; None for the default rate."""
    WORDS: ClassVar[bool] = False
    """Whether it builds on word vectors: `backbone.encoder` is `WordVectors`."""
    SHARED: ClassVar[Mapping[str, Scalar] | None] = None
    """Of a method with a loop of its own, the shared settings that its runs have, with their values: the seed and what
    names no input. None: all of `train`."""
    PREFIX: ClassVar[str] = "method."
    """How the dotted keys of its options begin."""
    LOOP: ClassVar[OwnLoop | None] = None
    """What stands in place of our loop; None for that."""
    NOTE: ClassVar[str] = ""
    """What tables say of a loop of its own: its score, and which of its inputs belong to a run."""
    TURNED: ClassVar[bool] = False
    """Whether the lower score is the better one: runs then report it with its sign turned."""

    def version(self) -> int:
        """The VERSION of these settings, where a change moved the numbers of some alone."""
        return self.VERSION

    def inputs(self) -> dict[str, str]:
        """Name of an option -> content hash of what the method reads beside encoder and corpus."""
        return {}

    def text_columns(self) -> tuple[str, ...] | None:
        """The text columns that the method needs, () where every text of a row counts; None where its class says it.

        What stands here is checked before a sweep begins, and what stands there when a run does.
        """
        return None

    def rank_dependent(self) -> bool:
        """Whether the world size changes the result."""
        return False

    def dropout_alone(self) -> str | None:
        """The setting under which nothing but dropout tells the two views of a text apart; None where something does.

        Such as `method.augmentation=none`.
        """
        return None

    def first_token(self) -> str | None:
        """The setting that reads or writes position 0, beside an option `pooler`."""
        return None

    def both_ends(self) -> str | None:
        """The setting that edits what stands between the special tokens of both ends."""
        return None

    def __init_subclass__(cls) -> None:
        """Raise ConfigError for a misspelt hook, and for an option that has a hook's name."""
        super().__init_subclass__()
        fields = {name for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)}
        taken = [
            f"name of a hook: {cls.__module__}.{cls.__name__}.{name} is an option; "
            + (f"write {name} = ... without a type" if name.isupper() else "give it another name")
            for name in sorted(fields & {*OPTION_HOOKS})
        ]
        if problems := [*taken, *misspelt(cls, OPTION_HOOKS, fields)]:
            raise ConfigError(problems)


def misspelt(cls: type, hooks: Iterable[str], spared: Iterable[str] = ()) -> list[str]:
    """A line for each public name in a class's body that is no hook, and nearly is one."""
    hooks, where = [*hooks], f"{cls.__module__}.{cls.__name__}"
    names = [name for name in vars(cls) if not name.startswith("_") and name not in {*hooks, *spared}]
    near = {name: difflib.get_close_matches(name, hooks, 1, ALIKE) for name in names}
    hint = "a name of your own begins with _"
    return [f"no such hook: {where}.{name}; did you mean {close[0]}? ({hint})" for name, close in near.items() if close]


OPTION_HOOKS = tuple(
    name
    for name in dict.fromkeys((*get_annotations(Options), *vars(Options)))
    if not name.startswith("_") and (name.isupper() or isinstance(vars(Options)[name], FunctionType))
)
"""What `Options` asks of a method's settings."""
