"""IS-BERT's own promises: n-gram vectors that padding does not touch, their mean, and the loss over the whole batch."""

import math
from functools import partial

import pytest
import torch

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.methods import isbert
from tests.cse_train.methods import parts

batch_of = partial(parts.batch_of, isbert.ISBERT, isbert.Config())


def ngrams_by_hand(model: isbert.ISBERT, ids, rectified: bool = True) -> torch.Tensor:
    """[L, H] of one sentence, window by window, zeros on both sides (equation 1)."""
    tokens = model.encoder(pack_lists([ids]), tokens=True).last_TH
    columns = []
    for convolution in model.heads.convolutions:
        weight_OHK, side = convolution.weight, convolution.kernel_size[0] // 2
        padded = torch.cat([tokens.new_zeros(side, 32), tokens, tokens.new_zeros(side, 32)])
        windows = [padded[i : i + weight_OHK.shape[2]] for i in range(len(tokens))]
        columns.append(torch.stack([torch.einsum("ohk,kh->o", weight_OHK, w) + convolution.bias for w in windows]))
    whole = torch.cat(columns, dim=1)
    return whole.clamp(min=0) if rectified else whole


@pytest.mark.parametrize("kernels", ["1", "3", "1,3", "1,3,5", "1,3,5,7"])
@pytest.mark.parametrize("activation", ["relu", "none"])
def test_an_embedding_is_the_mean_of_n_gram_vectors(backbone, text_file, kernels, activation) -> None:
    model = isbert.ISBERT.build(isbert.Config(kernels=kernels, activation=activation), backbone).eval()
    packed = batch_of(backbone, text_file).inputs["text"]
    rows = [ngrams_by_hand(model, ids, activation == "relu").mean(0) for ids in packed.unpacked(packed.ids_T)]
    torch.testing.assert_close(model.encode(packed), torch.stack(rows), atol=1e-5, rtol=1e-4)


def test_kernels_share_the_width(backbone) -> None:
    heads = isbert.ISBERT.build(isbert.Config(), backbone).heads.convolutions
    assert [(c.out_channels, c.kernel_size[0]) for c in heads] == [(11, 1), (11, 3), (10, 5)]
    wide = isbert.NgramHeads(isbert.Config(), 768).convolutions
    assert [c.out_channels for c in wide] == [256] * 3


def test_loss_is_a_hand_loop_over_tokens_and_sentences(backbone, text_file) -> None:
    """Equation 3: each token with its own sentence, and with the five others as negatives."""
    model, batch = isbert.ISBERT.build(isbert.Config(), backbone), batch_of(backbone, text_file)
    packed = batch.inputs["text"]
    ngrams = [ngrams_by_hand(model, ids).double().detach() for ids in packed.unpacked(packed.ids_T)]
    means = [rows.mean(0) for rows in ngrams]
    positive, negative = [], []
    for i, rows in enumerate(ngrams):
        for token in rows:
            scores = [float(token @ mean) for mean in means]
            positive.append(math.log1p(math.exp(-scores[i])))
            negative += [math.log1p(math.exp(score)) for j, score in enumerate(scores) if j != i]
    expected = sum(positive) / len(positive) + sum(negative) / len(negative) - 2 * math.log(2)
    assert model(batch).loss.item() == pytest.approx(expected, rel=1e-4)


def test_gradient_reaches_sentences_through_others_tokens(backbone, text_file) -> None:
    """A sentence's own tokens are not all that moves it: without negatives the gradient is another."""
    model, batch = isbert.ISBERT.build(isbert.Config(), backbone), batch_of(backbone, text_file)
    weight = model.heads.convolutions[1].weight
    (whole,) = torch.autograd.grad(model(batch).loss, weight)
    ngrams_TH, sentences_NH = model._embed(batch.inputs["text"])
    packed = batch.inputs["text"]
    attended = packed.attended_T()
    own_T = packed.order_N[packed.row_T()][attended]
    total, count = isbert.jensen_shannon(ngrams_TH[attended], sentences_NH.detach(), own_T)
    (tokens_alone,) = torch.autograd.grad(total / count, weight)
    assert (whole - tokens_alone).abs().max() > 0.01 * whole.abs().max()


def test_other_architectures_embed_too(random_encoder) -> None:
    backbone = load_backbone(str(random_encoder("distilbert")))
    model, ids = isbert.ISBERT.build(isbert.Config(), backbone).eval(), [2, 9, 11, 3]
    torch.testing.assert_close(
        model.encode(pack_lists([ids]))[0], ngrams_by_hand(model, ids).mean(0), atol=1e-5, rtol=1e-4
    )
