"""The releases' forward passes under transformers 4.2.1, restated without a module: tensors by transformers' names.

Sentences are padded rows [N, L] with a mask; there is no dropout. Sources: SimCSE and PromCSE models.py (cl_forward),
DiffCSE models.py:127-283, transformers 4.2.1 modeling_bert.py and modeling_roberta.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PretrainedConfig

Tensors = dict[str, Tensor]
PREDICTIONS = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head"),
}
"""Names of the masked-LM head: the layer, its norm, and what holds decoder and bias."""


def leaves(tensors: Tensors) -> Tensors:
    """Copies whose gradients are kept."""
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in tensors.items()}


def positions(ids_NL: Tensor, config: PretrainedConfig, before: int) -> Tensor:
    """BERT counts from `before`; RoBERTa counts what is not padding, which has the padding position."""
    if config.model_type == "bert":
        return torch.arange(before, before + ids_NL.shape[1]).expand_as(ids_NL)
    real_NL = ids_NL.ne(config.pad_token_id).int()
    return (real_NL.cumsum(1) + before) * real_NL + config.pad_token_id


def body(
    tensors: Tensors,
    config: PretrainedConfig,
    ids_NL: Tensor,
    mask_NL: Tensor,
    prefix: list[Tensor] | None = None,
    cls_input_NH: Tensor | None = None,
) -> Tensor:
    """Last layer [N, L, H] of BertModel or RobertaModel.

    `prefix`: past keys and values [2, N, heads, P, D] of each layer. `cls_input_NH`: DiffCSE's modeling_bert.py:960.
    """
    rows, length = ids_NL.shape
    before = 0 if prefix is None else prefix[0].shape[3]
    pad = config.pad_token_id
    at_NL = positions(ids_NL, config, before)
    place_pad = pad if config.model_type == "roberta" else None
    x = F.embedding(ids_NL, tensors["embeddings.word_embeddings.weight"], padding_idx=pad)
    x = x + F.embedding(at_NL, tensors["embeddings.position_embeddings.weight"], padding_idx=place_pad)
    x = x + tensors["embeddings.token_type_embeddings.weight"][0]
    x = normed(tensors, "embeddings.LayerNorm", x, config)
    if cls_input_NH is not None:
        x = torch.cat([cls_input_NH[:, None], x[:, 1:]], dim=1)
    seen = torch.cat([torch.ones(rows, before), mask_NL.float()], dim=1)
    bias = (1.0 - seen)[:, None, None] * -10000.0
    heads = config.num_attention_heads
    for index in range(config.num_hidden_layers):
        layer = f"encoder.layer.{index}."
        query, key, value = (
            linear(tensors, f"{layer}attention.self.{part}", x).view(rows, length, heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        if prefix is not None:
            key, value = torch.cat([prefix[index][0], key], dim=2), torch.cat([prefix[index][1], value], dim=2)
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5 + bias
        context = (scores.softmax(-1) @ value).transpose(1, 2).reshape(rows, length, -1)
        x = normed(tensors, f"{layer}attention.output.LayerNorm", linear_plus(tensors, layer, context, x), config)
        inner = F.gelu(linear(tensors, f"{layer}intermediate.dense", x))
        x = normed(tensors, f"{layer}output.LayerNorm", linear(tensors, f"{layer}output.dense", inner) + x, config)
    return x


def linear(tensors: Tensors, name: str, x: Tensor) -> Tensor:
    return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def linear_plus(tensors: Tensors, layer: str, context: Tensor, x: Tensor) -> Tensor:
    """The attention's output layer and the residual."""
    return linear(tensors, f"{layer}attention.output.dense", context) + x


def normed(tensors: Tensors, name: str, x: Tensor, config: PretrainedConfig) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], eps=config.layer_norm_eps)


def mlm_loss(tensors: Tensors, config: PretrainedConfig, hidden_NLH: Tensor, labels_NL: Tensor) -> Tensor:
    """BertLMPredictionHead or RobertaLMHead, whose decoder is a parameter `decoder.weight` of its own, and CE."""
    dense, norm, head = PREDICTIONS[config.model_type]
    x = normed(tensors, norm, F.gelu(linear(tensors, dense, hidden_NLH)), config)
    scores = F.linear(x, tensors[f"{head}.decoder.weight"], tensors[f"{head}.bias"])
    return F.cross_entropy(scores.flatten(0, 1), labels_NL.flatten(), ignore_index=-100)


def contrastive(one_BH: Tensor, two_BH: Tensor) -> Tensor:
    """models.py:196-212 with temperature 0.05."""
    cosines = F.cosine_similarity(one_BH[:, None], two_BH[None], dim=-1) / 0.05
    return F.cross_entropy(cosines, torch.arange(len(one_BH)))


def projection_mlp(tensors: Tensors, x_NH: Tensor) -> Tensor:
    """DiffCSE's ProjectionMLP in training: `inner`, batch norm, ReLU, `outer`, batch norm without affine."""
    x = F.linear(x_NH, tensors["inner.weight"])
    x = F.batch_norm(x, None, None, tensors["inner_norm.weight"], tensors["inner_norm.bias"], training=True)
    return F.batch_norm(F.linear(F.relu(x), tensors["outer.weight"]), None, None, training=True)
