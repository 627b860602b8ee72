"""Frozen masked language model that fills masked sentences (DiffCSE's and ELECTRA's generator).

Released code and paper differ: DiffCSE's code takes the most probable token at every position (diffcse/models.py:184),
its abstract speaks of sampling. Shape suffixes: T packed slots, S slots of one piece, V vocabulary.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cse_train import numerics
from cse_train.backbone.backbone import Backbone, load_backbone, require_same_vocabulary
from cse_train.backbone.folders import weight_files
from cse_train.backbone.weight_files import require_safe
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError
from cse_train.generator.identity import generator_folder
from cse_train.generator.most_probable import most_probable

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
        require_memory(name, folder)
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
        hidden_TH = self.encoder(packed, tokens=True).last_TH
        assert isinstance(hidden_TH, Tensor)
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


def require_memory(name: str, folder: Path) -> None:
    """Raises ConfigError if a generator's weight files are larger than the free memory, where Linux tells it."""
    needed = sum(path.stat().st_size for path in weight_files(folder))
    available = available_memory()
    if available is not None and needed > available:
        line = f"generator larger than memory: method.generator={name} has {needed / 1e9:.2f} GB of weights"
        raise ConfigError([f"{line}, {available / 1e9:.2f} GB are free; choose a smaller generator"])


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
