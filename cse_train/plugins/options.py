"""Settings of a method, and hooks that describe them without torch: `Options`, base class of every `Config`."""

import difflib
from collections.abc import Iterable, Mapping
from inspect import get_annotations
from types import FunctionType
from typing import ClassVar, Literal, NamedTuple

from cse_train.fields import Added, ConfigError, Scalar

PlainPooler = Literal["mean", "cls_no_mlp", "last", "first_last", "first_last_layer1"]
"""Pooling of token vectors to one vector, for methods without a projector (`cse_train.encoder.pooling.POOLERS`)."""
HOOK_SIMILARITY = 0.7
"""Similarity, from 0 to 1, from which a name counts as a misspelt hook."""


class OwnLoop(NamedTuple):
    """Functions that train, score and read runs in place of the project's own, each as `module:name`."""

    train: str
    """Function with the signature of `cse_train.training.loop:train`."""
    scorer: str
    """Function with the signature of `cse_train.evaluate.score:score_checkpoint`."""
    reader: str
    """Function with the signature of `cse_train.checkpoint:read_finished`."""


class Options:
    """Base class of a method's settings: a frozen keyword-only dataclass whose fields a space may vary.

    Each field has a default, best the paper's, and is a bool, int, float, str, Literal or one of them or None. The
    class variables and methods below are the hooks: a run's signature and its checks read them. A name that nearly is a
    hook's is refused.
    """

    VERSION: ClassVar[int]
    """Version of the method's numbers, raised whenever a run's result changes; each method sets its own, at first 1."""
    ADDED: ClassVar[Mapping[str, Added]] = {}
    """Options that were added after runs had been trained, whose signatures must stay."""
    LIKE: ClassVar[str | None] = None
    """Name of a method whose learning rate serves where a profile lists no rate for this one; None for the default."""
    WORDS: ClassVar[bool] = False
    """True if the method builds on word vectors: `backbone.encoder` is `WordVectors`."""
    SHARED: ClassVar[Mapping[str, Scalar] | None] = None
    """Shared settings of a method with its own training loop, with their fixed values; None for all of `train`.

    They are the seed and settings that name no input.
    """
    PREFIX: ClassVar[str] = "method."
    """Prefix of the dotted keys of the method's options."""
    LOOP: ClassVar[OwnLoop | None] = None
    """Functions of the method's own training loop; None for the project's loop."""
    NOTE: ClassVar[str] = ""
    """Note in tables about a method with its own training loop: its score, and which of its inputs belong to a run."""
    TURNED: ClassVar[bool] = False
    """True if a lower score is better: runs then report the score with its sign changed."""

    POOLER: ClassVar[PlainPooler | None] = None
    """Pooler of the embeddings of a method without an option `pooler`, such as `mean`; None for another embedding.

    Tables compare its runs with the encoder before training under this pooler.
    """

    def version(self) -> int:
        """Returns the VERSION of these settings; overridden where a change moved the numbers of only some settings."""
        return self.VERSION

    def inputs(self) -> dict[str, str]:
        """Returns option's name -> content hash, for inputs that the method reads besides encoder and corpus."""
        return {}

    def text_columns(self) -> tuple[str, ...] | None:
        """Returns the text columns that the method needs: () if it reads every text, None if only its class knows.

        Columns that are given here are checked before a sweep begins, those that only the class gives when a run does.
        """
        return None

    def rank_dependent(self) -> bool:
        """Returns True if the world size changes the result."""
        return False

    def dropout_alone(self) -> str | None:
        """Returns the setting under which two views of a text differ by dropout alone, as `method.augmentation=none`.

        None if something else distinguishes the views too.
        """
        return None

    def first_token(self) -> str | None:
        """Returns the setting that reads or writes position 0, other than an option `pooler`; None if there is none."""
        return None

    def both_ends(self) -> str | None:
        """Returns the setting that edits texts between the special tokens of both ends; None if there is none."""
        return None

    def __init_subclass__(cls) -> None:
        """Raises ConfigError for a misspelt hook, and for an option that has a hook's name."""
        super().__init_subclass__()
        fields = {name for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)}
        conflicts = [
            f"name of a hook: {cls.__module__}.{cls.__name__}.{name} is an option; "
            + (f"write {name} = ... without a type" if name.isupper() else "give it another name")
            for name in sorted(fields & {*OPTION_HOOKS})
        ]
        if problems := [*conflicts, *misspelt(cls, OPTION_HOOKS, fields)]:
            raise ConfigError(problems)


def misspelt(cls: type, hooks: Iterable[str], spared: Iterable[str] = ()) -> list[str]:
    """Returns a line for each public name in a class's body that is no hook, but nearly one."""
    hooks, where = [*hooks], f"{cls.__module__}.{cls.__name__}"
    names = [name for name in vars(cls) if not name.startswith("_") and name not in {*hooks, *spared}]
    near = {name: difflib.get_close_matches(name, hooks, 1, HOOK_SIMILARITY) for name in names}
    hint = "a name of your own begins with _"
    return [f"no such hook: {where}.{name}; did you mean {close[0]}? ({hint})" for name, close in near.items() if close]


OPTION_HOOKS = tuple(
    name
    for name in dict.fromkeys((*get_annotations(Options), *vars(Options)))
    if not name.startswith("_") and (name.isupper() or isinstance(vars(Options)[name], FunctionType))
)
"""Names of the hooks of `Options`."""
