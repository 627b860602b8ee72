"""DiffCSE (Chuang et al., NAACL 2022): SimCSE, and detection, from the embedding, of edits in the sentence.

On NLI triplets, as D2CSE's author built it (Lee 2023, section 3 and table 8), the contrastive loss is supervised
SimCSE's and the conditional loss is over anchors, positives and hard negatives together, each sentence edited once and
conditioned on its own embedding. Shape suffixes: V views, B examples of this rank, N sequences, H width, T packed
slots, M some of them.
"""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.distributed import gather_with_grad, mean_over_ranks
from cse_train.encoder.backbone import Backbone, own_encoder, require_head
from cse_train.encoder.edits import Edited, EditRule, EditStore, StoreWithEdits, fill, pack_edits
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.generator import Generator
from cse_train.encoder.masked_lm import MaskedLMHead
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.losses import corrective_lm, replaced_token, view_statistics
from cse_train.methods.base import Batch, Method, RngOf, Share, StepOutput, contrast, predict_masked
from cse_train.methods.options.diffcse import Config as Config
from cse_train.methods.options.diffcse import has_generator
from cse_train.text.masking import Edit, Vocabulary, count_edited, edit
from cse_train.text.tokens import TokenStore

TRIPLETS_NEED = ("same", "none", "live")
"""Values of `source`, `extra` and `edits` that the objective `triplets` needs."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "text", column after column, and "edited": the edits of `_draw_edits`, in its order."""

    config: Config
    vocabulary: Vocabulary
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        texts, rows = [share.store.column(name) for name in DiffCSE.columns(self.config)], share.rows
        text = pack_lists([column.row(i) for column in texts for i in rows], pad_id=self.pad_id)
        if self.config.task == self.config.extra == "none":
            return Batch({"text": text}, len(rows))
        if isinstance(share.store, StoreWithEdits):
            assert share.place is not None
            edits = share.store.edits.of(rows, share.place)
        else:
            edits = _draw_edits(self.config, self.vocabulary, share.store, rows, share.rng_of)
        edited, tensors = pack_edits(list(edits), pad_id=self.pad_id, width=self._width(share))
        return Batch({"text": text, "edited": edited}, len(rows), tensors)

    def _width(self, share: Share) -> int | None:
        """Returns the length of the longest edited sentence of all ranks where the loss counts padding; else None."""
        if self.config.task != "replaced_token" or self.config.reduction != "mean_all":
            return None
        columns_of = [share.store.column(name) for name in DiffCSE.columns(self.config)]
        lengths = [c.lengths[share.batch_rows + offset] for c in columns_of for offset in offsets(self.config)]
        return int(count_edited(np.concatenate(lengths), self.config.operator, self.config.masking_ratio).max())


def _draw_edits(
    config: Config, vocabulary: Vocabulary, store: TokenStore, rows: np.ndarray, rng_of: RngOf
) -> Iterator[Edit]:
    """Yields the unfilled edits of some examples: column by column, source by source, view by view, row by row."""
    rngs = [rng_of(int(i)) for i in rows]
    for name, offset in itertools.product(DiffCSE.columns(config), offsets(config)):
        for _ in range(views(config)):
            for i, rng in zip(rows + offset, rngs, strict=True):
                yield edit(store.column(name).row(i), config.operator, config.masking_ratio, vocabulary, rng)


def views(config: Config) -> int:
    """Returns the number of edits of a sentence: one for each of its embeddings, or one as an example of its own."""
    return 2 if config.task != "none" and config.objective == "unsupervised" else 1


def offsets(config: Config) -> tuple[int, ...]:
    """Returns the distances from the row of a sentence to the rows that are edited for it."""
    return {"same": (0,), "next": (1,), "both": (0, 1)}[config.source]


class DiffCSE(Method[Config]):
    """DiffCSE: an encoder and its pooler; in training also the task's discriminator and the frozen generator."""

    TRAINING_ONLY = ("generator.", "discriminator.")

    @classmethod
    def usable_rows(cls, config: Config, store: TokenStore) -> np.ndarray:
        """Returns all rows, but the last where the next one is read; the next line may be of another article."""
        return np.arange(store.rows - max(offsets(config)))

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store, with stored edits where the configuration asks for them; nothing is edited yet."""
        check(config)
        if config.edits == "live":
            return store
        rule = EditRule(config.generator, config.generator_dropout, config.sampling, config.masking_ratio)
        draw = partial(_draw_edits, config, Vocabulary.of(backbone.tokenizer), store)
        edits = EditStore(rule, draw, offsets(config), views(config), backbone, store, cache)
        return StoreWithEdits(store.rows, store.columns, store.content_hash, store.folder, store.arrays, edits)

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        check(config)
        return Collate(config, Vocabulary.of(tokenizer), tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for options that do not go together."""
        check(config)
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.width, config.projector)
        self.discriminator = _discriminator(config, backbone) if training else None
        self.generator: Generator | None = None
        if training and has_generator(config) and config.edits == "live":
            sample = config.sampling == "sample"
            self.generator = Generator(config.generator, backbone, config.generator_dropout, sample)

    def forward(self, batch: Batch) -> StepOutput:
        copies = 2 if self.config.objective == "unsupervised" else 1
        hidden = [self.encoder(batch.inputs["text"], views=copies, tokens=self.pooler.needs_tokens)]
        edited = self._fill_edits(batch)
        if edited is not None and self.config.extra != "none":
            hidden.append(self.encoder(edited.packed, tokens=self.pooler.needs_tokens))
        views_VBH = self.pooler(*hidden).unflatten(1, (-1, batch.examples)).flatten(0, 1)
        gathered = [gather_with_grad(view_BH) for view_BH in views_VBH]
        metrics = view_statistics(gathered[0], gathered[1])
        loss = views_VBH.new_zeros(())
        if self.config.contrastive:
            # An edited sentence is a hard negative, or a positive of a second term of equal weight.
            together = self.config.extra == "negatives" or self.config.objective == "triplets"
            terms = [gathered] if together else [[gathered[0], positives_GH] for positives_GH in gathered[1:]]
            loss = torch.stack([contrast(term, self.config) for term in terms]).mean()
            metrics["loss_contrastive"] = loss.detach()
        if edited is not None:
            metrics["replaced_fraction"] = edited.replaced_fraction()
        if edited is not None and self.discriminator is not None:
            conditions_NH = views_VBH.flatten(0, 1).repeat(len(offsets(self.config)), 1)
            auxiliary, observed = self.discriminator(edited, conditions_NH)
            loss, metrics = loss + self.config.lambda_weight * auxiliary, metrics | observed
        return StepOutput(loss, {"loss": loss.detach(), **metrics})

    def _fill_edits(self, batch: Batch) -> Edited | None:
        """Fills the edited sentences, after the encoder has drawn its dropout, so that its masks equal SimCSE's."""
        if "edited" not in batch.inputs:
            return None
        return fill(self.generator, batch.inputs["edited"], batch.tensors, self.config.operator == "insert")


def _discriminator(config: Config, backbone: Backbone) -> "ConditionalTask | None":
    if config.task == "none":
        return None
    encoder = own_encoder(backbone, f"method.task={config.task} puts the embedding into its [CLS] slot")
    if config.task == "replaced_token":
        return ReplacedToken(encoder, config.reduction)
    head = require_head(backbone, f"method.task={config.task}", "method.task=replaced_token")
    return (ConditionalMaskedLM if config.task == "masked_lm" else CorrectiveLM)(encoder, head)


def check(config: Config) -> None:
    """Raises ConfigError with every pair of options that do not go together."""
    rules = [
        (
            not config.contrastive and (config.task == "none" or config.lambda_weight == 0),
            f"nothing to train: method.contrastive=False, method.task={config.task}, "
            f"method.lambda_weight={config.lambda_weight}; give a task with a weight",
        ),
        (
            config.extra != "none" and (config.task != "none" or not config.contrastive),
            f"two uses of the edited sentence: method.extra={config.extra}, method.task={config.task}, "
            f"method.contrastive={config.contrastive}; extra examples need task=none and contrastive=True",
        ),
        (
            config.task in ("masked_lm", "corrective_lm") and config.operator != "replace",
            f"no such task: method.task={config.task}, method.operator={config.operator}; use operator=replace",
        ),
        (
            config.edits == "stored" and (config.operator != "replace" or not has_generator(config)),
            f"nothing to store: method.edits=stored, method.operator={config.operator}, method.task={config.task}, "
            f"method.extra={config.extra}; use operator=replace and a task that a generator fills, or edits=live",
        ),
        (
            config.task == "none" and config.source != "same",
            f"no conditional task: method.source={config.source}, method.task=none; use source=same",
        ),
        (
            config.objective == "triplets" and (config.source, config.extra, config.edits) != TRIPLETS_NEED,
            f"of single sentences alone: method.objective=triplets, method.source={config.source}, "
            f"method.extra={config.extra}, method.edits={config.edits}; triplets need {', '.join(TRIPLETS_NEED)}",
        ),
    ]
    if problems := [line for broken, line in rules if broken]:
        raise ConfigError(problems)


Result = tuple[Tensor, dict[str, Tensor]]
"""Loss of a task, and its metrics by name."""


class ConditionalTask(nn.Module):
    """Base of DiffCSE's tasks: owns a copy of the encoder, which reads an edited sentence with a condition."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)

    def hidden(self, packed: Packed, condition_NH: Tensor) -> Tensor:
        """Returns the last layer [T, H], with the conditions, in batch order, in place of the [CLS] embeddings."""
        last_TH = self.encoder(packed, tokens=True, cls_output_NH=condition_NH).last_TH
        assert isinstance(last_TH, Tensor)
        return last_TH


class ReplacedToken(ConditionalTask):
    """Conditional replaced-token detection (DiffCSE eq. 3): a discriminator with a new head, Linear(H, 2)."""

    def __init__(self, encoder: Encoder, reduction: str) -> None:
        super().__init__(encoder)
        self.head = nn.Linear(encoder.width, 2)
        self.reduction = reduction

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        logits_T2 = self.head(self.hidden(edited.packed, condition_NH))
        attended_T = edited.packed.attended_T()
        loss = mean_over_ranks(*replaced_token(logits_T2, edited.replaced_T, attended_T, self.reduction))
        right = (logits_T2.argmax(1) == edited.replaced_T) & attended_T
        return loss, {"loss_rtd": loss.detach(), "rtd_accuracy": right.sum() / attended_T.sum()}


class ConditionalMaskedLM(ConditionalTask):
    """Conditional masked LM: predicts the masked tokens; the loss is the mean over the chosen positions.

    The head is a copy of the encoder's, and its decoder the copied encoder's word embedding; the released code has no
    such task that would say otherwise. CMLM (Yang et al. 2020) projects its vector to several positions; here it takes
    one, as in the rest of DiffCSE.
    """

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__(encoder)
        self.head = copy.deepcopy(head)

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        at_M, states_TH = edited.chosen_M, self.hidden(edited.packed, condition_NH)
        loss, _ = predict_masked(self.head, self.encoder, states_TH, at_M, edited.source_T[at_M])
        return loss, {"loss_mlm": loss.detach()}


class CorrectiveLM(ConditionalTask):
    """Corrective LM: predicts the original token at every position, by copying or by a copy of the encoder's head.

    The loss is the mean over all real tokens.
    """

    def __init__(self, encoder: Encoder, head: MaskedLMHead) -> None:
        super().__init__(encoder)
        self.head = copy.deepcopy(head)
        self.copy = nn.Linear(encoder.width, 1)

    def forward(self, edited: Edited, condition_NH: Tensor) -> Result:
        at_M = edited.packed.attended_M()
        hidden_MH = self.hidden(edited.packed, condition_NH)[at_M]
        logits_MV, copy_M = self.head(hidden_MH, self.encoder.word.weight), self.copy(hidden_MH).squeeze(1)
        ids_M, source_M = edited.packed.ids_T[at_M], edited.source_T[at_M]
        loss = mean_over_ranks(*corrective_lm(logits_MV, copy_M, ids_M, source_M))
        copied = (copy_M.detach() > 0).eq(ids_M == source_M).float().mean()
        return loss, {"loss_corrective": loss.detach(), "copy_accuracy": copied}
