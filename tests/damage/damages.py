"""Ways in which a file goes wrong: bytes flipped, cut, doubled or swapped, and values exchanged for others."""

import copy
import json
from collections.abc import Callable, Iterator
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


Accident = Callable[[bytes, bytes, st.DrawFn], bytes]
ACCIDENTS: dict[str, Accident] = {
    "repeated": lambda part, after, draw: part * draw(st.sampled_from(TIMES)) + part + after,
    "inserted bytes": lambda part, after, draw: draw(st.binary(min_size=1, max_size=8)) + part + after,
    "inserted marks": lambda part, after, draw: draw(st.sampled_from(MARKS)) + part + after,
    "flipped": lambda part, after, draw: bytes(byte ^ 1 << len(part) % 8 for byte in part[:1]) + part[1:] + after,
    "zeroed": lambda part, after, draw: bytes(len(part)) + after,
    "removed": lambda part, after, draw: after,
    "cut": lambda part, after, draw: b"",
}
"""What becomes of a part and of what lies after it."""
SWAPPED = "swapped"


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content after one to three accidents. Only what is drawn is made: a checkpoint has a megabyte."""
    for _ in range(draw(st.integers(1, 3))):
        at, size = draw(st.integers(0, max(0, len(content) - 1))), draw(st.integers(1, 64))
        name = draw(st.sampled_from((*ACCIDENTS, SWAPPED)))
        if name == SWAPPED:
            content = content[at:] + content[:at]
        else:
            content = content[:at] + ACCIDENTS[name](content[at : at + size], content[at + size :], draw)
    return content


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
