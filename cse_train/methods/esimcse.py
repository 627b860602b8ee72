"""ESimCSE (Wu et al., COLING 2022): sub-word repetition on the second view, and a queue of momentum embeddings.

Shape suffixes: N sequences, B examples of this rank, G of all ranks, H width.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.encoder import Hidden
from cse_train.encoder.generator import Generator, fill_views, pack_views
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.losses import info_nce, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.esimcse import Config as Config
from cse_train.text.augment import MASK_EXTENSIONS, WORD_EXTENSIONS, WORDS_KEPT, Extend, truncate
from cse_train.text.masking import require_mask
from cse_train.text.synonyms import stop_word_ids


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to views 1 and 2 in one pack (`pack_views`), and view 1 alone for the momentum encoder."""

    config: Config
    extend: Extend
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows.tolist()
        anchors = [truncate(column.row(i), self.extend.max_length) for i in rows]
        longer = [self.extend(column, i, share.rng_of(i)) for i in rows]
        mask_id = self.extend.mask_id if self.config.extension == "masked_prediction" else None
        packs, tensors = pack_views(anchors, longer, apart=False, mask_id=mask_id, pad_id=self.pad_id)
        if self.config.queue_multiple:
            packs["anchors"] = pack_lists(anchors, pad_id=self.pad_id)
        return Batch(packs, len(rows), tensors)


class ESimCSE(Method[Config]):
    """ESimCSE: SimCSE's loss with repeated sub-words in view 2, and momentum embeddings of past batches as negatives.

    The order of a step is the released one (trainers.compute_loss, models.py:123-163): momentum update towards the
    pre-step encoder, loss against the queue, then view 1 through the momentum encoder, without dropout and with the
    ONLINE projector, into the queue. So the queue never holds the current batch.
    """

    TRAINING_ONLY = ("momentum.", "queue.", "generator.")

    @classmethod
    def tokens_kept(cls, config: Config, max_seq_length: int) -> int:
        """Returns the tokens kept of a text, more where words are edited before truncation."""
        return max_seq_length * (WORDS_KEPT if config.extension in WORD_EXTENSIONS else 1)

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        """Returns whether training reads no ids but the corpus's: repetition brings no new one, inserted tokens may."""
        return config.extension in ("subword", "word")

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration. ConfigError for a queue smaller than the batch."""
        _check(config)
        stop_words = tuple(stop_word_ids(tokenizer)) if config.extension == "stop_word" else ()
        is_masking = config.extension in MASK_EXTENSIONS
        mask_id = require_mask(tokenizer, f"method.extension={config.extension}") if is_masking else None
        extend = Extend(config.extension, config.dup_rate, config.dup_rule, max_seq_length, mask_id, stop_words)
        return Collate(config, extend, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for a queue smaller than the batch."""
        _check(config)
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width)
        self.queue = Queue(config.queue_multiple)
        self.momentum: MomentumEncoder | None = None
        if config.queue_multiple and training:
            self.momentum = MomentumEncoder(self.encoder, config.momentum, config.momentum_init)
        filling = training and config.extension == "masked_prediction"
        self.generator = Generator(config.generator, backbone, dropout=False) if filling else None

    def forward(self, batch: Batch) -> StepOutput:
        if self.momentum is not None:
            self.momentum.update(self.encoder)
        packs, _ = fill_views(self.generator, batch.inputs, batch.tensors)
        pooled_NH = self.encode(packs["text"])
        anchors_GH, positives_GH = (gather_with_grad(view) for view in pooled_NH.split(batch.examples))
        negatives = self.queue.rows_MD if len(self.queue) else None
        loss = info_nce(anchors_GH, positives_GH, negatives, temperature=self.config.temperature)
        metrics = {"loss_contrastive": loss.detach(), **view_statistics(anchors_GH, positives_GH)}
        metrics["queue_rows"] = loss.new_full((), len(self.queue))
        if self.momentum is not None:
            self._enqueue(batch.inputs["anchors"])
        return StepOutput(loss, {"loss": loss.detach(), **metrics})

    @torch.no_grad()
    def _enqueue(self, anchors: Packed) -> None:
        assert self.momentum is not None
        embedded_BH = self.pooler(self.momentum(anchors, tokens=self.pooler.needs_tokens))[0]
        self.queue.enqueue(gather_with_grad(embedded_BH) if self.config.queue_scope == "gathered" else embedded_BH)


def _check(config: Config) -> None:
    """Raises ConfigError for a queue that could not hold one batch, so would leave out some ranks' rows."""
    if 0 < config.queue_multiple < 1:
        line = f"queue smaller than the batch: method.queue_multiple={config.queue_multiple:g}"
        raise ConfigError([f"{line}, method.queue_scope={config.queue_scope}; use at least 1, or 0 for no queue"])


class MomentumEncoder(nn.Module):
    """Average of an encoder, theta_m <- m * theta_m + (1 - m) * theta_e, in fp32; never trained, without dropout.

    `initial="random"` keeps the released code's behaviour: there the copy is taken before the checkpoint is loaded, so
    theta_m starts from new weights; "pretrained" is what the paper means.
    """

    def __init__(self, online: nn.Module, momentum: float, initial: Literal["pretrained", "random"]) -> None:
        super().__init__()
        self.momentum = momentum
        self.average = copy.deepcopy(online).requires_grad_(False)
        if initial == "random":
            redraw(self.average)

    @torch.no_grad()
    def update(self, online: nn.Module) -> None:
        """Moves the average one step towards the online encoder as it is now, before the optimiser's step."""
        averages: list[Tensor] = [p for p in self.average.parameters() if p.is_floating_point()]
        weights: list[Tensor] = [p for p in online.parameters() if p.is_floating_point()]
        torch._foreach_lerp_(averages, weights, 1.0 - self.momentum)

    @torch.no_grad()
    def forward(self, packed: Packed, tokens: bool) -> Hidden:
        self.average.eval()
        return self.average(packed, views=1, tokens=tokens)


def redraw(encoder: nn.Module) -> None:
    """Replaces every weight by BERT's initialisation, from torch's global generator."""
    for name, parameter in encoder.named_parameters():
        with torch.no_grad():
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.ndim == 1:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, 0.02)


class Queue(nn.Module):
    """Queue of the newest embeddings, oldest first; holds at most `multiple` times the rows of one `enqueue`.

    The size follows from the batch (ESimCSE: 2.5 x 64 = 160) and need not divide it.
    """

    rows_MD: Tensor

    def __init__(self, multiple: float) -> None:
        super().__init__()
        self.multiple = multiple
        # Its number of rows changes, and load_state_dict refuses another shape: it is saved as extra state.
        self.register_buffer("rows_MD", torch.empty(0, 0), persistent=False)

    @torch.no_grad()
    def enqueue(self, embeddings_BD: Tensor) -> None:
        """Appends one batch and drops the oldest rows beyond the size."""
        most = round(self.multiple * len(embeddings_BD))
        new = embeddings_BD.detach().float()
        rows = new if self.rows_MD.numel() == 0 else torch.cat([self.rows_MD, new])
        self.rows_MD = rows[max(0, len(rows) - most) :]

    def __len__(self) -> int:
        return len(self.rows_MD)

    def get_extra_state(self) -> Tensor:
        return self.rows_MD

    def set_extra_state(self, state: Any) -> None:
        self.rows_MD = state.to(self.rows_MD.device)
