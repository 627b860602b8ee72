"""Runs other architectures through transformers' `AutoModel`, behind the interface of `Encoder`.

Each length group goes through the model as one padded batch, so that `Hidden` has the same layout as `Encoder`'s.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.encoder.encoder import Hidden
from cse_train.encoder.folders import MIXES_PADDING, REMEDY
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.fields import ConfigError
from cse_train.reading import reading

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


UNREADABLE = "no encoder of texts"
INPUTS_ADVICE = "choose a model that transformers' AutoModel runs on input_ids alone"


class AutoModelEncoder(nn.Module):
    """Transformers model with the interface of `Encoder`; position 0 is read as [CLS].

    The model must return `last_hidden_state` and `hidden_states`. Of an encoder-decoder only the encoder is used.
    """

    def __init__(self, model: "PreTrainedModel", loads_by: str = "AutoModel") -> None:
        super().__init__()
        self.model = model
        self.loads_by = loads_by
        """Name of the transformers class that loads the saved model; empty for a part that no class loads."""
        self.config: PretrainedConfig = model.config
        self.skipped = 0
        """Number of a prompt's tokens that are excluded from means, as in `Encoder`."""
        tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
        paddings = [row for table in tables if isinstance(row := getattr(table, "padding_idx", None), int)]
        self.position_offset = 1 + paddings[0] if paddings else 0
        """Number of position embeddings in front of the first token's, as RoBERTa and its relatives count."""
        self.mixes_padding = self.config.model_type in MIXES_PADDING

    @property
    def width(self) -> int:
        """Hidden size H of the model."""
        return int(self.config.hidden_size)

    @property
    def positions(self) -> int | None:
        """Largest number of tokens that a text may have; None for any number."""
        limit = getattr(self.config, "max_position_embeddings", None)
        return limit - self.position_offset if limit and limit > 0 else None

    def save(self, folder: Path) -> None:
        """Saves the model in the form of the class that loads it.

        That class may have several names for one tensor, where the part in use has one.
        """
        import transformers

        if self.loads_by == "AutoModel":
            self.model.save_pretrained(folder)
            return
        model = getattr(transformers, self.loads_by)(self.config)
        model.get_encoder().load_state_dict(self.model.state_dict())
        model.save_pretrained(folder)

    def forward(self, packed: Packed, *, views: int = 1, tokens: bool = False, layers: bool = False) -> Hidden:
        """Encodes every sequence as `Encoder.forward` does; every view is a full pass.

        Raises ValueError for a sequence that is longer than the position embeddings.
        """
        longest = max(group.needed for group in packed.groups)
        if self.positions is not None and longest > self.positions:
            line = f"encoder: length={longest} exceeds its {self.positions} positions"
            raise ValueError(f"{line}; lower train.max_seq_length")
        groups: list[tuple[Tensor, ...]] = []
        first = 0
        for group, ids in packed.split(packed.ids_T[:, None]):
            lengths = packed.lengths_N[first : first + group.rows]
            first += group.rows
            states = self._group(ids.squeeze(2)[:, : group.needed], lengths, views, tokens or layers)
            padding = (0, 0, 0, group.rounded)
            groups.append(tuple(F.pad(state, padding) for state in states) if group.rounded else states)
        by_layer = list(zip(*groups, strict=True))
        cls_VNH = packed.unsort([block[:, 0] for block in by_layer[-1]], views)
        if not (tokens or layers):
            return Hidden(packed, views, cls_VNH)
        chosen = by_layer if layers else (by_layer[0], by_layer[1], by_layer[-1])
        flat = tuple(torch.cat([block.reshape(-1, block.shape[-1]) for block in blocks]) for blocks in chosen)
        return Hidden(packed, views, cls_VNH, flat[-1], flat[0], flat[1], flat if layers else (), self.skipped)

    def _group(self, ids: Tensor, lengths: Tensor, views: int, tokens: bool) -> tuple[Tensor, ...]:
        """Returns the states after embeddings and every layer, or the last layer's alone, of rows sorted by length."""
        if not self.mixes_padding:
            return self._pass(ids, lengths, views, tokens)
        parts = []
        for count in torch.unique_consecutive(lengths, return_counts=True)[1].tolist():
            first, ids, lengths = (ids[:count], lengths[:count]), ids[count:], lengths[count:]
            length = int(first[1][0])
            padding = (0, 0, 0, first[0].shape[1] - length)
            states = self._pass(first[0][:, :length], first[1], views, tokens)
            parts.append([F.pad(state, padding).unflatten(0, (views, count)) for state in states])
        return tuple(torch.cat(blocks, 1).flatten(0, 1) for blocks in zip(*parts, strict=True))

    def _pass(self, ids: Tensor, lengths: Tensor, views: int, tokens: bool) -> tuple[Tensor, ...]:
        real = torch.arange(ids.shape[1], device=ids.device)[None] < lengths[:, None]
        ids = torch.where(real, ids, self.config.pad_token_id or 0).repeat(views, 1)
        out = self.model(
            input_ids=ids, attention_mask=real.long().repeat(views, 1), output_hidden_states=tokens, return_dict=True
        )
        return (*out.hidden_states[:-1], out.last_hidden_state) if tokens else (out.last_hidden_state,)


def load_automodel(folder: Path, config: "PretrainedConfig") -> AutoModelEncoder:
    """Loads the encoder of a folder in fp32.

    Raises ConfigError, one line, for weights that do not fit config.json, and for a model that gives no states of a
    text.
    """
    import transformers

    name = type(config).__name__.removesuffix("Config") + "EncoderModel"  # T5EncoderModel for a T5Config, and so on
    kind: Any = getattr(transformers, name, transformers.AutoModel)
    with reading("incomplete weights", folder, REMEDY):
        model, report = kind.from_pretrained(folder, config=config, output_loading_info=True)
    is_part = config.is_encoder_decoder and kind.__name__ == "AutoModel"
    encoder = model if kind.__name__ == "AutoModel" and not is_part else model.get_encoder()
    prefix = next(f"{name}." if name else "" for name, module in model.named_modules() if module is encoder)
    # A pooler may be absent: `AutoModelEncoder` reads the states of the tokens alone.
    absent = sorted(name for name in report["missing_keys"] if "pooler" not in name and name.startswith(prefix))
    if absent:  # transformers fills them with random numbers
        line = f"{folder}: {len(absent)} tensors absent, such as {absent[0]}"
        raise ConfigError([f"incomplete weights: {line}; the files do not fit config.json"])
    wrapper = AutoModelEncoder(encoder.float(), "" if is_part else kind.__name__)
    with reading(UNREADABLE, folder, INPUTS_ADVICE), torch.no_grad():
        hidden = wrapper(pack_lists([[0, 0, 0], [0, 0]], groups=1), layers=True)
        if any(state.shape != (6, wrapper.width) for state in hidden.states_TH):
            raise ValueError("its layers give states of another length or width than the text's")
    return wrapper
