"""Reads an exported folder back with the library that it was written for: it must embed as the checkpoint does.

A dev set is embedded, and one batch of texts of very unlike lengths, which shows whether padding changes an embedding.
Shape suffixes: N texts, U distinct texts, L tokens, H hidden size, D embedding size.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import Embedder, Encode, StsEvaluator
from cse_train.evaluate.exported_folders import BATCH_ROWS, Embed, embed_in_batches, load_modules, pool_tokens
from cse_train.evaluate.pairs import load_pairs
from cse_train.export.folders import LAYERS_READ, Parts
from cse_train.fields import ConfigError
from cse_train.reading import reading

SCORE_TOLERANCE = 1e-3
"""Points by which the dev scores of checkpoint and folder may differ."""
EMBEDDING_TOLERANCE = 1e-4
"""Share of the largest coordinate by which embeddings may differ."""
FALLBACK_SET = "generated_dev:200"
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
    dev_set: str
    """Name of the set that selected the checkpoint; `suite` replaces it where its files are absent."""
    checkpoint_score: float
    """Dev score of the checkpoint's embeddings."""
    folder_score: float
    """Dev score of the exported folder's embeddings."""
    texts: int
    """Number of texts that checkpoint and folder both embedded."""
    largest: float
    """Largest difference between coordinates of the two embeddings of a text."""
    scale: float
    """Largest coordinate of the checkpoint's embeddings."""
    unscored: str = ""
    """Reason why the checkpoint has no score; empty where it has one."""

    def lines(self) -> list[str]:
        """Returns both scores as lines for the user."""
        checkpoint, folder = (
            "no score" if math.isnan(value) else f"{value:.4f}" for value in (self.checkpoint_score, self.folder_score)
        )
        scores = f"{self.suite}: checkpoint {checkpoint}, reloaded with {self.library} {folder}"
        lines = [f"{scores} (embeddings of {self.texts} texts differ by {self.largest:.1e} at most)"]
        if self.unscored:
            lines.append(f"no score: {self.suite} has none here, {self.unscored}")
        if self.suite != self.dev_set:
            lines.append(f"{self.dev_set} selected the checkpoint, but its files are not here: give --data to score it")
        return lines

    def require(self) -> None:
        """Raises ExportChanged unless checkpoint and folder agree."""
        scored = self.suite == self.dev_set and not self.unscored
        close = not scored or abs(self.checkpoint_score - self.folder_score) <= SCORE_TOLERANCE
        if not close or self.largest > EMBEDDING_TOLERANCE * self.scale:
            raise ExportChanged(f"export changed the model: {self.lines()[0]}; nothing is written, please report it")


def compare(parts: Parts, folder: Path, paths: DataPaths) -> Agreement:
    """Embeds the dev set that selected the checkpoint with both; a generated one where its files are absent."""
    dev_set = parts.run.train.dev
    try:
        pairs = load_pairs(dev_set, paths)
    except ConfigError:
        pairs = load_pairs(FALLBACK_SET, paths)
    embed, library = _reload_folder(folder, parts.pooler.pooler, parts.prompt)
    evaluator = StsEvaluator(pairs, parts.tokenizer, parts.max_length, parts.prompt)
    encode = cast(Encode, parts.method.encode)
    checkpoint_UD, folder_UD = evaluator.embedder(encode), embed(evaluator.texts)
    checkpoint, reloaded = evaluator.score(checkpoint_UD), evaluator.score(folder_UD)
    words = " ".join(evaluator.texts[: max(MIXED_WORDS)]).split() * max(MIXED_WORDS)
    mixed = [" ".join(words[:count]) for count in MIXED_WORDS]
    # Each text alone: in a batch of its own no padding reaches it, whatever the architecture.
    alone = [Embedder([text], parts.tokenizer, parts.max_length, parts.prompt)(encode) for text in mixed]
    differences = np.abs(checkpoint_UD - folder_UD).max(), np.abs(np.concatenate(alone) - embed(mixed)).max()
    return Agreement(
        library=library,
        suite=pairs.name,
        dev_set=dev_set,
        checkpoint_score=checkpoint.value,
        folder_score=reloaded.value,
        unscored=checkpoint.unscored,
        texts=len(evaluator.texts) + len(mixed),
        largest=float(max(differences)),
        scale=float(np.abs(checkpoint_UD).max()),
    )


LIBRARY = "sentence_transformers"
READ_BACK_ADVICE = "use --format hf, or cse eval and cse embed"


def _reload_folder(folder: Path, pooler: str, prompt: str = "") -> tuple[Embed, str]:
    """Returns a function that embeds texts with the folder, and the library (with version) that it uses.

    sentence-transformers reads its own layout where it is installed; else transformers reads the folder, as the model
    card says for `hf`, and as the folder's modules say for the other layout.
    """
    if not (folder / "modules.json").exists():
        return embed_in_batches(_load_by_transformers(folder, pooler), prompt), _version("transformers")
    if importlib.util.find_spec(LIBRARY) is None:
        return embed_in_batches(load_modules(folder), prompt), _version("transformers")
    return _load_by_library(folder), _version("sentence-transformers")


def _load_by_library(folder: Path) -> Embed:
    from sentence_transformers import SentenceTransformer

    with reading("not exportable: sentence-transformers cannot read it back", folder.name, READ_BACK_ADVICE):
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True, local_files_only=True)

    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors = model.encode(list(texts), batch_size=BATCH_ROWS, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float64)

    return embed


def _load_by_transformers(folder: Path, pooler: str) -> Callable[[Sequence[str]], Tensor]:
    """Returns a function that embeds texts as the model card's code does."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    def embed(texts: Sequence[str]) -> Tensor:
        batch = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        out = model(**batch, output_hidden_states=True)
        if pooler == "cls":
            return out.pooler_output
        first = out.hidden_states[LAYERS_READ[pooler]] if pooler in LAYERS_READ else out.last_hidden_state
        return pool_tokens((first + out.last_hidden_state) / 2, batch["attention_mask"], pooler)

    return embed


def _version(package: str) -> str:
    return f"{package} {importlib.metadata.version(package)}"
