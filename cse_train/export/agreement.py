"""Check that an exported folder, read back, embeds as the checkpoint: on a dev set, and on one batch of mixed lengths.

Texts of very unlike lengths in one batch show whether padding changes an embedding. Shape suffixes: U distinct texts, D
embedding size.
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
"""Points by which the dev scores of checkpoint and folder may differ."""
NEARNESS = 1e-4
"""Share of the largest coordinate by which embeddings may differ."""
FIXED = "generated_dev:200"
"""Generated set that is used where the files of the dev set are missing."""
MIXED_WORDS = (1, 2, 3, 5, 8, 13, 21, 34)
"""Words of each text in the batch of mixed lengths: a dev set's batches are sorted by length and so hardly padded."""


class ExportChanged(RuntimeError):
    """Raised when the exported folder does not embed as the checkpoint does."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Scores and embeddings of one set by the checkpoint and by the exported folder, compared."""

    library: str
    """Name and version of the library that read the folder."""
    suite: str
    """Name of the set that was embedded."""
    wanted: str
    """Name of the set that selected the checkpoint; `suite` replaces it where its files are absent."""
    ours: float
    """Score of the checkpoint."""
    theirs: float
    """Score of the exported folder."""
    texts: int
    """Number of texts that both embedded."""
    largest: float
    """Largest difference between coordinates of the two embeddings of a text."""
    scale: float
    """Largest coordinate of the checkpoint's embeddings."""
    unscored: str = ""
    """Reason why the checkpoint has no score; empty where it has one."""

    def lines(self) -> list[str]:
        """Returns both scores as lines for the user."""
        ours, theirs = ("no score" if math.isnan(value) else f"{value:.4f}" for value in (self.ours, self.theirs))
        scores = f"{self.suite}: checkpoint {ours}, reloaded with {self.library} {theirs}"
        lines = [f"{scores} (embeddings of {self.texts} texts differ by {self.largest:.1e} at most)"]
        if self.unscored:
            lines.append(f"no score: {self.suite} has none here, {self.unscored}")
        if self.suite != self.wanted:
            lines.append(f"{self.wanted} selected the checkpoint, but its files are not here: give --data to score it")
        return lines

    def require(self) -> None:
        """Raises ExportChanged unless checkpoint and folder agree."""
        scored = self.suite == self.wanted and not self.unscored
        close = not scored or abs(self.ours - self.theirs) <= TOLERANCE
        if not close or self.largest > NEARNESS * self.scale:
            raise ExportChanged(f"export changed the model: {self.lines()[0]}; nothing is written, please report it")


def compare(parts: Parts, folder: Path, paths: DataPaths) -> Agreement:
    """Embeds the dev set that selected the checkpoint with both; a generated one where its files are absent."""
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
    """Returns texts of MIXED_WORDS words, made of the words of the given texts."""
    words = " ".join(texts[: max(MIXED_WORDS)]).split() * max(MIXED_WORDS)
    return [" ".join(words[:count]) for count in MIXED_WORDS]
