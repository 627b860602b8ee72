"""Architectures that `Encoder` computes: those with BERT's layers, whatever their names."""

from typing import Any

FIRST_BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "data2vec-text")
"""Model types whose position ids start behind the padding's id."""
PACKED_KINDS = ("bert", *FIRST_BEHIND_PADDING)


def find_unsupported(config: Any) -> str | None:
    """Returns the reason why `Encoder` cannot compute a transformers configuration exactly; None if it can."""
    if config.model_type not in PACKED_KINDS:
        return f"encoder: model_type={config.model_type} is not one of {', '.join(PACKED_KINDS)}"
    if config.hidden_act != "gelu":
        return f"encoder: hidden_act={config.hidden_act} is not gelu"
    if getattr(config, "is_decoder", False):
        return "encoder: is_decoder=True attends causally"
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        return f"encoder: position_embedding_type={config.position_embedding_type} is not absolute"
    return None
