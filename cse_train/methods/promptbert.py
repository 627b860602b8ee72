"""PromptBERT (Jiang et al., EMNLP 2022): a sentence's embedding is the vector at [MASK] in a template around it.

Two templates give the two views of InfoNCE (section 4.3). From each vector h, the vector h^ of the template alone is
subtracted, its tokens at the positions that they have around the sentence: cos(h - h^, h' - h'^) / tau. The released
run.sh subtracts in training and not at test, and puts SimCSE's tanh layer on top in training. There a sentence is
tokenised by itself, at test within its template: a blank before it is part of its first token for RoBERTa. Shape
suffixes: B examples of this rank, N sequences, U lengths, L tokens of a template, T packed slots, H width.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cse_train.distributed import copy_to, gather_with_grad
from cse_train.encoder.backbone import Backbone, own_encoder
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import LengthGroup, Packed, pack_lists
from cse_train.encoder.pooling import MlpProjector
from cse_train.fields import ConfigError
from cse_train.losses import info_nce, view_statistics
from cse_train.methods.base import Batch, Encode, Method, Share, StepOutput
from cse_train.methods.options.promptbert import Config as Config
from cse_train.text.templates import TEMPLATE_SENTENCE, Template, read_template
from cse_train.text.tokens import TokenStore

VIEWS = ("first", "second")
"""Names of the two packs of a batch, one for each template."""
END_MARKS = (".", "?", '"', "'")
"""Ends of a text that needs no full stop."""
SPECIAL_TOKENS = 2
"""Number of special tokens, [CLS] and [SEP], which the store counts and a template brings itself."""
WHY = "a template without its sentence has positions of its own"
"""Reason, for a message, why PromptBERT needs an encoder of this project."""


def templates(config: Config, tokenizer: Any) -> tuple[Template, Template]:
    """Returns the templates of both views. ConfigError for one without its two places."""
    first = read_template("method.template", config.template, tokenizer)
    return first, read_template("method.second_template", config.second_template, tokenizer)


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "first" and "second": every sentence in each of the templates."""

    templates: tuple[Template, Template]
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        sentences = [share.store.column("text").row(i) for i in share.rows]
        filled = ([template.around(ids) for ids in sentences] for template in self.templates)
        packs = {name: pack_lists(rows, pad_id=self.pad_id) for name, rows in zip(VIEWS, filled, strict=True)}
        return Batch(packs, len(sentences))


class PromptBERT(Method[Config]):
    """PromptBERT: an encoder, two templates and, in training, the projector."""

    TRAINING_ONLY = ("projector.",)

    @classmethod
    def tokens_kept(cls, config: Config, max_seq_length: int) -> int:
        """Returns the tokens kept of a text: the released code counts the sentence's sub-words alone."""
        return max_seq_length + SPECIAL_TOKENS

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store as it is; ConfigError where its longest sentence does not fit into the templates."""
        longest = int(store.column("text").lengths.max()) - SPECIAL_TOKENS
        room = min(_room(own_encoder(backbone, WHY), template) for template in templates(config, backbone.tokenizer))
        if longest > room:
            line = f"template overflows positions: method.template={config.template} leaves {room} tokens"
            raise ConfigError([f"{line} and the longest sentence has {longest}; lower train.max_seq_length"])
        return store

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration. ConfigError for a template without its two places."""
        return Collate(templates(config, tokenizer), tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for an encoder through `AutoModel` or a wrong template."""
        super().__init__()
        self.config = config
        self.encoder = own_encoder(backbone, WHY)
        self.templates = templates(config, backbone.tokenizer)
        self.pad_id = backbone.tokenizer.pad_token_id
        self.first_position = -self.encoder.position_offset if config.bare_positions == "from_0" else 0
        projected = training and config.projector == "train_only"
        self.projector: nn.Module = MlpProjector(backbone.width) if projected else nn.Identity()

    def forward(self, batch: Batch) -> StepOutput:
        views = []
        for name, template in zip(VIEWS, self.templates, strict=True):
            vectors_BH = self._vectors(batch.inputs[name], template, self.config.denoising != "none")
            views.append(gather_with_grad(self.projector(vectors_BH)))
        loss = info_nce(views[0], views[1], temperature=self.config.temperature)
        return StepOutput(loss, {"loss": loss.detach(), **view_statistics(views[0], views[1])})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time by the first template, [N, H]; a sentence too long for it is cut."""
        return self._embed(packed, self.config.denoising == "always")

    def dev_encodes(self) -> list[Encode]:
        """Returns the function that embeds for the dev score, denoised where the settings ask for it."""
        denoised = self.config.dev_denoising and self.config.denoising == "training"
        return [lambda packed: self._embed(packed, True)] if denoised else [self.encode]

    def text_of(self, text: str) -> str:
        """Returns a text as the test reads it: with the blank before its place in the template, and an end mark."""
        unmarked = self.config.end_mark and text != "" and not text.endswith(END_MARKS)
        blank = " " if self.config.template.partition(TEMPLATE_SENTENCE)[0][-1:].isspace() else ""
        return f"{blank}{text}{'.' if unmarked else ''}"

    def _embed(self, packed: Packed, denoised: bool) -> Tensor:
        template = self.templates[0]
        rows, room = packed.unpacked(packed.ids_T), _room(self.encoder, template)
        filled = pack_lists([template.around(ids, room) for ids in rows], pad_id=self.pad_id)
        return self._vectors(filled.to(packed.ids_T.device), template, denoised)

    def _vectors(self, packed: Packed, template: Template, denoised: bool) -> Tensor:
        """Returns [N, H], the last layer at [MASK] of filled templates, minus the bare template's where `denoised`."""
        vectors_NH = self._read_mask(packed, template)
        if not denoised:
            return vectors_NH
        lengths_U, which_N = torch.unique(packed.host_lengths_N - template.length, return_inverse=True)
        alone = template_alone(template, lengths_U, self.first_position).to(vectors_NH.device)
        alone_NH = self._read_mask(alone, template)[copy_to(which_N, vectors_NH.device)]
        return vectors_NH - torch.empty_like(vectors_NH).index_copy(0, packed.order_N, alone_NH)

    def _read_mask(self, packed: Packed, template: Template) -> Tensor:
        last_TH = self.encoder(packed, tokens=True).tokens_TH
        vectors_NH = last_TH[packed.first_VN() + template.mask_at(packed.lengths_N)]
        return torch.empty_like(vectors_NH).index_copy(0, packed.order_N, vectors_NH)


def template_alone(template: Template, lengths_U: Tensor, first: int = 0) -> Packed:
    """Packs the template without a sentence, once per length of one, keeping the positions that a sentence would take.

    All in main memory. `first` is its first token's position, counted from where a text begins.
    """
    rows, place_L = len(lengths_U), torch.arange(template.length)
    ids_L = torch.tensor([*template.before, *template.after])
    positions_UL = first + place_L + (place_L >= len(template.before)) * lengths_U[:, None]
    order_U, length_U = torch.arange(rows), torch.full((rows,), template.length)
    group = LengthGroup(rows, template.length, None)
    return Packed(ids_L.repeat(rows), positions_UL.flatten(), (group,), order_U, length_U, length_U)


def _room(encoder: Encoder, template: Template) -> int:
    """Returns the number of a sentence's sub-words that fit into a template."""
    return int(encoder.config.max_position_embeddings) - encoder.position_offset - template.length
