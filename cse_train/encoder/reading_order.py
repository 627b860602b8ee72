"""Tests how an encoder treats the first and last position of a text, and dropout, by running it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from cse_train.encoder.automodel import AutoModelEncoder
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import pack_lists

ORDER_TEXTS = ("one sentence of a few words", "another")
"""Two texts that begin and end with different words."""
ORDER_DRAWS = 32
"""Number of compared pairs of views: a low rate may drop nothing in a short text of a small encoder."""


def reads_first(pooler: str) -> bool:
    """Returns True if a pooler reads position 0."""
    return pooler.startswith("cls")


def others_than_first(poolers: Iterable[str]) -> str:
    """Returns the poolers that do not read position 0, joined for a message; empty if there are none."""
    *names, last = [name for name in poolers if not reads_first(name)] or [""]
    return f"{', '.join(names)} or {last}" if names else last


def first_token_problem(encoder: nn.Module, tokenizer: Any) -> str | None:
    """Returns why the vector at position 0 is no sentence's, as a clause about the encoder; None if it is one."""
    if not _find_added(tokenizer)[0]:
        return "whose tokenizer puts no token such as [CLS] in front of a text"
    if isinstance(encoder, AutoModelEncoder) and _is_causal(encoder, tokenizer):
        return "which attends causally, so that position 0 sees itself alone"
    return None


def both_ends_problem(tokenizer: Any) -> str | None:
    """Returns why a text lacks a special token at one of its ends, as a clause about the encoder; else None."""
    places = zip(("in front of", "behind"), _find_added(tokenizer), strict=True)
    missing = [place for place, added in places if not added]
    return f"whose tokenizer puts no special token {' or '.join(missing)} a text" if missing else None


def has_noise(encoder: Encoder | AutoModelEncoder, tokenizer: Any) -> bool:
    """Returns True if two passes over one text differ in training mode.

    Leaves torch's random state and the modes of all modules as they were.
    """
    packed = pack_lists([_ids(tokenizer, ORDER_TEXTS[0])])
    with _mode(encoder, training=True):
        for _ in range(ORDER_DRAWS):
            last_TH = encoder(packed, views=2, tokens=True).tokens_TH
            if not torch.equal(*last_TH.chunk(2)):
                return True
    return False


def _find_added(tokenizer: Any) -> tuple[bool, bool]:
    """Returns (front, back): True if the tokenizer puts the same token in front of every text, and behind it."""
    encoded = tokenizer(list(ORDER_TEXTS), return_special_tokens_mask=True)
    ids, added = encoded["input_ids"], encoded["special_tokens_mask"]
    front, back = (all(mask[at] for mask in added) and len({row[at] for row in ids}) == 1 for at in (0, -1))
    return front, back


def _is_causal(encoder: AutoModelEncoder, tokenizer: Any) -> bool:
    """Returns True if the state at position 0 does not depend on the tokens behind it."""
    ids = _ids(tokenizer, ORDER_TEXTS[0])
    first, second = ids[0], ids[-1] if ids[-1] != ids[0] else int(ids[0] == 0)
    with _mode(encoder, training=False):
        state, other_state = encoder(pack_lists([[first, second], [first, first]], groups=1)).cls_VNH[0]
    return torch.equal(state, other_state)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


@contextmanager
def _mode(encoder: nn.Module, *, training: bool) -> Iterator[None]:
    modes = [(module, module.training) for module in encoder.modules()]
    with torch.random.fork_rng(), torch.no_grad():
        encoder.train(training)
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
