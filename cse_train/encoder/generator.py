"""Frozen masked language model that fills masked sentences (DiffCSE's and ELECTRA's generator), and blanks in views.

Released code and paper differ: DiffCSE's code takes the most probable token at every position (diffcse/models.py:184),
its abstract speaks of sampling. Shape suffixes: T packed slots, S slots of one piece, M blanks, V vocabulary, H width,
R runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train import numerics
from cse_train.encoder.backbone import Backbone, load_backbone, require_same_vocabulary
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.folders import weight_files
from cse_train.encoder.identity import generator_folder
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.weight_files import require_safe
from cse_train.fields import ConfigError
from cse_train.text.masking import BLANK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PIECE = 1024
"""Number of slots whose logits exist at one time: 1024 x 30,522 fp32 numbers are 125 MB."""
GREEDY_PIECE = 512
"""Number of slots whose logits exist at one time where only the largest logit is wanted."""

MEMORY_FILE = Path("/proc/meminfo")


class Generator(nn.Module):
    """Masked LM that never trains; with `dropout` its dropout acts whenever the parent module trains.

    The released generator's does (T16). Raises ConfigError, one line, when `name` cannot be had, is larger than the
    memory, reads other token ids than the encoder `like`, or has no masked-LM head.
    """

    def __init__(self, name: str, like: Backbone, dropout: bool = True, sample: bool = False) -> None:
        super().__init__()
        folder = generator_folder(name)
        needed, available = sum(path.stat().st_size for path in weight_files(folder)), available_memory()
        if available is not None and needed > available:
            line = f"generator larger than memory: method.generator={name} has {needed / 1e9:.2f} GB of weights"
            raise ConfigError([f"{line}, {available / 1e9:.2f} GB are free; choose a smaller generator"])
        backbone = load_backbone(str(folder))
        backbone.name = name
        require_same_vocabulary(like, backbone)
        self.dropout = dropout
        self.sample = sample
        self.vocabulary = len(like.tokenizer)
        self.content_hash = backbone.content_hash
        packed = isinstance(backbone.encoder, Encoder) and backbone.head is not None
        self.network: nn.Module = PackedMaskedLM(backbone) if packed else PaddedMaskedLM(_load_masked_lm(name, folder))
        self.requires_grad_(False).train()

    def train(self, mode: bool = True) -> "Generator":
        """Sets training mode only if the generator's dropout is wanted."""
        return super().train(mode and self.dropout)

    @torch.no_grad()
    def predict(self, packed: Packed, at_M: Tensor | None = None) -> Tensor:
        """Returns token ids [T] for every slot in packed order, or [M] for the slots `at_M` in their order.

        Greedy, or sampled from torch's global generator. All ids are in the encoder's vocabulary; ids at padding mean
        nothing.
        """
        if at_M is not None and not isinstance(self.network, PackedMaskedLM):
            return self.predict(packed)[at_M]
        if isinstance(self.network, PackedMaskedLM) and not self.sample and not torch.is_autocast_enabled("cpu"):
            return self.network.most_probable(packed, at_M, self.vocabulary)
        logits = self.network(packed) if at_M is None else self.network(packed, at_M)
        pieces = (logits_SV[:, : self.vocabulary] for logits_SV in logits)
        if not self.sample:
            return torch.cat([piece_SV.argmax(-1) for piece_SV in pieces])
        return torch.cat([_draw(piece_SV.float().softmax(-1)) for piece_SV in pieces])


def _draw(probability_SV: Tensor) -> Tensor:
    """Draws one id [S] from each distribution.

    On a GPU it computes what `torch.multinomial` does, without the checks for which the host would wait.
    """
    if numerics.is_card(probability_SV.device):
        return (probability_SV / torch.empty_like(probability_SV).exponential_()).argmax(-1)
    return torch.multinomial(probability_SV, 1).squeeze(1)


class PackedMaskedLM(nn.Module):
    """BERT or RoBERTa with its head, in `Encoder`; yields logits [S, V] piece by piece, at some slots or at all."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.encoder = backbone.encoder
        self.head = backbone.head

    def forward(self, packed: Packed, at_M: Tensor | None = None) -> Iterator[Tensor]:
        assert isinstance(self.encoder, Encoder) and self.head is not None
        for hidden_SH in self._run_encoder(packed, at_M).split(PIECE):
            yield self.head(hidden_SH, self.encoder.word.weight)

    def most_probable(self, packed: Packed, at_M: Tensor | None, vocabulary: int) -> Tensor:
        """Returns the greedy ids, among the first `vocabulary` ones, at some slots [M] or at all [T]."""
        assert isinstance(self.encoder, Encoder) and self.head is not None
        read_MH = self.head.transformed(self._run_encoder(packed, at_M))
        weight_VH, bias_V = self.encoder.word.weight[:vocabulary], self.head.bias[:vocabulary]
        return torch.cat([most_probable(read_SH, weight_VH, bias_V) for read_SH in read_MH.split(GREEDY_PIECE)])

    def _run_encoder(self, packed: Packed, at_M: Tensor | None) -> Tensor:
        hidden_TH: Tensor = self.encoder(packed, tokens=True).tokens_TH
        return hidden_TH if at_M is None else hidden_TH[at_M]


class PaddedMaskedLM(nn.Module):
    """Masked LM of any other architecture, through transformers; yields logits [S, V] length group by length group."""

    def __init__(self, model: "PreTrainedModel") -> None:
        super().__init__()
        self.model = model

    def forward(self, packed: Packed) -> Iterator[Tensor]:
        pad_id = self.model.config.pad_token_id or 0
        mask_T = packed.attended_T().long()
        ids_T = torch.where(mask_T.bool(), packed.ids_T, pad_id)
        masks = packed.split(mask_T[:, None])
        for (_, ids), (_, mask) in zip(packed.split(ids_T[:, None]), masks, strict=True):
            out = self.model(input_ids=ids.squeeze(2), attention_mask=mask.squeeze(2), return_dict=True)
            yield out.logits.flatten(0, 1)


def available_memory() -> int | None:
    """Returns the bytes that a new process could have without swapping; None if the system does not say."""
    lines = MEMORY_FILE.read_text(encoding="utf8").splitlines() if MEMORY_FILE.exists() else []
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return sizes[0] if sizes else None


def _load_masked_lm(name: str, folder: Path) -> "PreTrainedModel":
    from transformers import AutoModelForMaskedLM

    require_safe(folder)
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    if report["missing_keys"]:
        line = f"no masked-LM head: method.generator={name} lacks {min(report['missing_keys'])}"
        raise ConfigError([f"{line}; choose a model that ships its head"])
    return model.float()


GENERATOR_RUN = 128
"""Length of the runs of logits whose largest number is found first."""
GENERATOR_ROWS = 128
"""Multiple to which the number of slots is padded: oneDNN compiles each shape that it has not seen."""


def most_probable(hidden_SH: Tensor, weight_VH: Tensor, bias_V: Tensor) -> Tensor:
    """Returns the ids [S] with the largest logits. Raises IndexError for an empty vocabulary."""
    padding = -len(hidden_SH) % GENERATOR_ROWS
    logits_SV = F.linear(F.pad(hidden_SH, (0, 0, 0, padding)), weight_VH).add_(bias_V)
    return largest(logits_SV[: len(hidden_SH)])


def largest(x_SV: Tensor) -> Tensor:
    """Returns `x_SV.argmax(-1)`, computed faster for long rows."""
    numbers = x_SV.shape[1]
    if numbers < 2 * GENERATOR_RUN:
        return x_SV.argmax(-1)
    # `unfold` drops a rest that fills no run: the last run is counted from the end, and may overlap the one before.
    ends = x_SV[:, -GENERATOR_RUN:].amax(-1, keepdim=True)
    highest_SR = torch.cat([x_SV.unfold(1, GENERATOR_RUN, GENERATOR_RUN).amax(-1), ends], 1)
    first_S = (highest_SR.argmax(-1) * GENERATOR_RUN).clamp(max=numbers - GENERATOR_RUN)
    within_SR = x_SV.gather(1, first_S[:, None] + torch.arange(GENERATOR_RUN, device=x_SV.device))
    return first_S + within_SR.argmax(-1)


Packs = dict[str, Packed]
Sentences = Sequence[np.ndarray]


def pack_views(
    first: Sentences, others: Sentences, *, apart: bool, mask_id: int | None, pad_id: int | None
) -> tuple[Packs, dict[str, Tensor]]:
    """Packs all views as "text"; with `apart` the second views go to "second", for an encoder of their own.

    Without `others`, both views are `first`, packed once. `mask_id` None: no sentence has blanks. Otherwise the second
    views are in "blanks" too, with [MASK] at every blank, and the tensors "blank_at_M" and "blank_from_M" are the slots
    of the same blanks in the views' pack and in "blanks".
    """
    if not others:
        return {"text": pack_lists(first, pad_id=pad_id)}, {}
    name, prefix = ("second", []) if apart else ("text", first)
    masked = others if mask_id is None else [np.where(ids == BLANK, mask_id, ids) for ids in others]
    packs = {name: pack_lists([*prefix, *masked], pad_id=pad_id)}
    if apart:
        packs["text"] = pack_lists(first, pad_id=pad_id)
    if mask_id is None:
        return packs, {}
    packs["blanks"] = pack_lists(masked, pad_id=pad_id)
    blanks = [ids == BLANK for ids in others]
    firsts = np.cumsum([0, *(int(blank.sum()) for blank in blanks)])
    numbers = [np.where(b, start + np.cumsum(b) - 1, -1) for b, start in zip(blanks, firsts, strict=False)]
    nothing = [np.full(len(ids), -1) for ids in prefix]
    return packs, {"blank_at_M": _slot_of([*nothing, *numbers]), "blank_from_M": _slot_of(numbers)}


def fill_views(
    generator: Generator | None, packs: Mapping[str, Packed], tensors: Mapping[str, Tensor]
) -> tuple[Packs, Tensor | None]:
    """Returns the packs with the generator's most probable ids in the blanks, and those ids [M] in sentence order."""
    if generator is None:
        return dict(packs), None
    name = "second" if "second" in packs else "text"
    ids_M = generator.predict(packs["blanks"], tensors["blank_from_M"])
    filled_T = packs[name].ids_T.index_copy(0, tensors["blank_at_M"], ids_M)
    return dict(packs) | {name: replace(packs[name], ids_T=filled_T)}, ids_M


def _slot_of(numbers: Sentences) -> Tensor:
    packed_T = pack_lists(numbers, pad_id=-1).ids_T
    slots = torch.nonzero(packed_T >= 0).squeeze(1)
    return slots[packed_T[slots].argsort()]
