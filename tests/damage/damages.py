"""Ways in which a file goes wrong: bytes flipped, cut, doubled or swapped, and values exchanged for others."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", " ", "x", "\0", "\x1b[31m", "é", "\ud800", "1e400", "nan", "../../etc/passwd", "x" * 100_000),
    *([], {}, [1], [[]], [None], {"a": 1}, {"": None}),
)
"""Values that stand where others are expected."""
MARKS = (b'"', b"\n", b"\r", b"[" * 20_000, b"\xed\xa0\x80", b",")
TIMES = (2, 100, 5_000)
"""How often a part of a file is repeated."""


@dataclass(frozen=True)
class Accident:
    """What happens at a place of a file: to a part of it, of `size` bytes, or to all that lies around it."""

    at: int
    size: int
    name: str
    times: int
    inserted: bytes

    def after(self, content: bytes) -> bytes:
        at = self.at % max(1, len(content))
        before, part, rest = content[:at], content[at : at + self.size], content[at + self.size :]
        match self.name:
            case "repeated":
                return before + part * (self.times + 1) + rest
            case "inserted":
                return before + self.inserted + part + rest
            case "flipped":
                return before + bytes(byte ^ 1 << len(part) % 8 for byte in part[:1]) + part[1:] + rest
            case "zeroed":
                return before + bytes(len(part)) + rest
            case "removed":
                return before + rest
            case "cut":
                return before
            case _:
                return part + rest + before


@dataclass(frozen=True)
class Damaged:
    """A file and what happens to it. Hypothesis keeps what it drew, and a checkpoint has a megabyte."""

    content: bytes = field(repr=False)
    accidents: tuple[Accident, ...]

    def made(self) -> bytes:
        """The content after the accidents."""
        content = self.content
        for accident in self.accidents:
            content = accident.after(content)
        return content


def damaged(content: bytes) -> st.SearchStrategy[Damaged]:
    """The content and one to three accidents."""
    accident = st.builds(
        Accident,
        at=st.integers(0, max(0, len(content) - 1)),
        size=st.integers(1, 64),
        name=st.sampled_from(("repeated", "inserted", "flipped", "zeroed", "removed", "cut", "swapped")),
        times=st.sampled_from(TIMES),
        inserted=st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(MARKS)),
    )
    return st.lists(accident, min_size=1, max_size=3).map(lambda accidents: Damaged(content, tuple(accidents)))


@st.composite
def exchanged(draw: st.DrawFn, tree: Any) -> Any:
    """A JSON value in which one to three values are others, absent, or under another name."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        if isinstance(container, dict) and draw(st.integers(0, 3)) == 0:
            del container[key]
        else:
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return tree


def as_json(tree: Any) -> bytes:
    """JSON as Python writes it: NaN, infinities and halves of characters too."""
    return json.dumps(tree).encode()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)
