"""Words that ESimCSE's "inserting stop-words" puts in (table 5); the authors' list is not released, this is ours."""

from typing import Any

import numpy as np

STOP_WORDS = (
    "a an the and or but if as of at by for in into on to from with about over under then than so "
    "this that these those it its he she they we you i his her their our your is are was were be been "
    "has have had do does did will would can could should may not no only also very just there here"
).split()


def stop_word_ids(tokenizer: Any) -> list[np.ndarray]:
    """Each stop word's sub-word ids, as they stand after a blank."""
    backend = tokenizer.backend_tokenizer
    return [np.array(backend.encode(f" {word}", add_special_tokens=False).ids) for word in STOP_WORDS]
