"""Whether an exported folder, read back, is still the checkpoint: one dev set, embedded by both, and a batch of texts
of very unlike lengths, whose padding must reach none of them.

Shape suffixes: U distinct texts, D embedding size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import Embedder, Encode
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.sts import StsEvaluator
from cse_train.export.parts import Parts
from cse_train.export.reload import reload_folder
from cse_train.fields import ConfigError

TOLERANCE = 1e-3
"""Points that the two scores may differ by."""
NEARNESS = 1e-4
"""Share of the largest coordinate that embeddings may differ by, where no dev set tells."""
FIXED = "generated_dev:200"
"""Sentences that need no files."""
MIXED_WORDS = (1, 2, 3, 5, 8, 13, 21, 34)
"""Words of the texts of one batch: a dev set is sorted by length, so that its batches are hardly padded."""


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
        scored = self.suite == self.wanted and not self.unscored
        close = not scored or abs(self.ours - self.theirs) <= TOLERANCE
        if not close or self.largest > NEARNESS * self.scale:
            raise ExportChanged(f"export changed the model: {self.lines()[0]}; nothing is written, please report it")


def compare(parts: Parts, folder: Path, paths: DataPaths) -> Agreement:
    """Embed the dev set that selected the checkpoint with both; a generated one where its files are absent."""
    wanted = parts.run.train.dev
    try:
        pairs = load_pairs(wanted, paths)
    except ConfigError:
        pairs = load_pairs(FIXED, paths)
    embed, library = reload_folder(folder, parts.pooler.pooler, parts.prompt)
    evaluator = StsEvaluator(pairs, parts.tokenizer, parts.max_length, parts.prompt)
    encode = cast(Encode, parts.method.encode)
    ours_UD, theirs_UD = evaluator.embedder(encode), embed(evaluator.texts)
    ours, theirs = evaluator.score(ours_UD), evaluator.score(theirs_UD)
    mixed = _mix_lengths(evaluator.texts)
    # each alone: in a batch of its own no padding reaches ours, whatever the architecture
    alone = [Embedder([text], parts.tokenizer, parts.max_length, parts.prompt)(encode) for text in mixed]
    differences = np.abs(ours_UD - theirs_UD).max(), np.abs(np.concatenate(alone) - embed(mixed)).max()
    return Agreement(
        library=library,
        suite=pairs.name,
        wanted=wanted,
        ours=ours.value,
        theirs=theirs.value,
        unscored=ours.unscored,
        texts=len(evaluator.texts) + len(mixed),
        largest=float(max(differences)),
        scale=float(np.abs(ours_UD).max()),
    )


def _mix_lengths(texts: Sequence[str]) -> list[str]:
    """Texts of MIXED_WORDS words, out of the words of these."""
    words = " ".join(texts[: max(MIXED_WORDS)]).split() * max(MIXED_WORDS)
    return [" ".join(words[:count]) for count in MIXED_WORDS]
