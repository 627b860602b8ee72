"""Whether an exported folder, read back, is still the checkpoint: one dev set, embedded by both.

Shape suffixes: U distinct texts, D embedding size.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from cse_train.backbone.automodel import AutoModelEncoder
from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import Encode
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.sts import StsEvaluator
from cse_train.export.parts import Parts
from cse_train.export.reload import RELOADED_ROWS, reload_folder
from cse_train.fields import ConfigError

TOLERANCE = 1e-3
"""Points that the two scores may differ by."""
NEARNESS = 1e-4
"""Share of the largest coordinate that embeddings may differ by, where no dev set tells."""
FIXED = "generated_dev:200"
"""Sentences that need no files."""


class ExportChanged(RuntimeError):
    """The folder does not embed as the checkpoint does."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One set's score by the checkpoint and by the folder."""

    library: str
    """What read the folder, with its version."""
    suite: str
    wanted: str
    """The set that selected the checkpoint; `suite` stands in for it where its files are absent."""
    ours: float
    theirs: float
    texts: int
    largest: float
    """Largest difference between coordinates of embeddings of the same text."""
    scale: float
    """Largest coordinate."""
    unscored: str = ""
    """Why the checkpoint has no score; empty where it has one."""

    def lines(self) -> list[str]:
        """Both numbers, for a person."""
        ours, theirs = ("no score" if math.isnan(value) else f"{value:.4f}" for value in (self.ours, self.theirs))
        scores = f"{self.suite}: checkpoint {ours}, reloaded with {self.library} {theirs}"
        lines = [f"{scores} (embeddings of {self.texts} texts differ by {self.largest:.1e} at most)"]
        if self.unscored:
            lines.append(f"no score: {self.suite} has none here, {self.unscored}")
        if self.suite != self.wanted:
            lines.append(f"{self.wanted} selected the checkpoint, but its files are not here: give --data to score it")
        return lines

    def require(self) -> None:
        """Raise ExportChanged unless the two agree."""
        close = abs(self.ours - self.theirs) <= TOLERANCE
        if self.suite != self.wanted or self.unscored:
            close = self.largest <= NEARNESS * self.scale
        if not close:
            raise ExportChanged(f"export changed the model: {self.lines()[0]}; nothing is written, please report it")


def compare(parts: Parts, folder: Path, paths: DataPaths) -> Agreement:
    """Embed the dev set that selected the checkpoint with both; a generated one where its files are absent."""
    wanted = parts.run.train.dev
    try:
        pairs = load_pairs(wanted, paths)
    except ConfigError:
        pairs = load_pairs(FIXED, paths)
    is_single = isinstance(parts.encoder, AutoModelEncoder) and parts.encoder.mixes_padding
    embed, library = reload_folder(folder, parts.pooler.pooler, parts.prompt, 1 if is_single else RELOADED_ROWS)
    evaluator = StsEvaluator(pairs, parts.tokenizer, parts.max_length, parts.prompt)
    ours_UD, theirs_UD = evaluator.embedder(cast(Encode, parts.method.encode)), embed(evaluator.texts)
    ours, theirs = evaluator.score(ours_UD), evaluator.score(theirs_UD)
    return Agreement(
        library=library,
        suite=pairs.name,
        wanted=wanted,
        ours=ours.value,
        theirs=theirs.value,
        unscored=ours.unscored,
        texts=len(evaluator.texts),
        largest=float(np.abs(ours_UD - theirs_UD).max()),
        scale=float(np.abs(ours_UD).max()),
    )
