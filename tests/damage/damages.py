"""Ways in which a file goes wrong: bytes flipped, cut, doubled or swapped, and values exchanged for others."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", " ", "x", "\0", "\x1b[31m", "é", "\ud800", "1e400", "nan", "../../etc/passwd", "x" * 100_000),
    *([], {}, [1], [[]], [None], {"a": 1}, {"": None}),
)
"""Values that stand where others are expected."""
TIMES = (2, 100, 5_000)
"""How often a part of a file is repeated."""


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content after one to three accidents."""
    for _ in range(draw(st.integers(1, 3))):
        at, size = draw(st.integers(0, max(0, len(content) - 1))), draw(st.integers(1, 64))
        part = content[at : at + size]
        content = draw(
            st.sampled_from(
                (
                    content[:at],
                    content[:at] + content[at + size :],
                    content[:at] + bytes(byte ^ 1 << size % 8 for byte in part[:1]) + content[at + 1 :],
                    content[:at] + bytes(size) + content[at + size :],
                    content[:at] + part * draw(st.sampled_from(TIMES)) + content[at:],
                    content[at:] + content[:at],
                    content[:at] + draw(st.binary(min_size=1, max_size=8)) + content[at:],
                    content[:at] + draw(st.sampled_from((b'"', b"\n", b"\r", b"[" * 20_000, b"\xed\xa0\x80", b",")))
                    + content[at:],
                )
            )
        )  # fmt: skip
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
