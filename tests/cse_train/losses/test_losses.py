"""Each loss by hand, against a loop of its formula in fp64, frozen, and inside autocast."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cse_train.encoder.pooling import BatchNormProjector, JointBatchNorm
from cse_train.losses import (
    REDUCTIONS,
    bits_per_dimension,
    classification,
    contrastive_tension,
    corrective_lm,
    cosines,
    energy_hinge,
    info_nce,
    jensen_shannon,
    masked_lm,
    nt_xent,
    pair_features,
    product_features,
    replaced_token,
    self_guided,
    triplet,
    view_statistics,
)


def draws(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Standard normal ones, the same at each call."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def info_nce_loop(anchors, positives, negatives=None, hard=None, weight=1.0, temperature=0.05) -> float:
    """The paper's formula, term by term, in fp64."""

    def similar(a, b) -> float:
        return math.exp(float(a @ b) / (float(a.norm()) * float(b.norm())) / temperature)

    anchors, positives = anchors.double(), positives.double()
    total = 0.0
    for i in range(len(anchors)):
        below = sum(similar(anchors[i], p) for p in positives)
        if hard is not None:
            below += sum((weight if j == i else 1.0) * similar(anchors[i], h) for j, h in enumerate(hard.double()))
        if negatives is not None:
            below += sum(similar(anchors[i], n) for n in negatives.double())
        total -= math.log(similar(anchors[i], positives[i]) / below)
    return total / len(anchors)


def test_T1_two_by_two_by_hand() -> None:
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    first = math.log(math.exp(1) + math.exp(math.sqrt(0.5))) - 1
    second = math.log(math.exp(0) + math.exp(math.sqrt(0.5))) - math.sqrt(0.5)
    assert info_nce(anchors, positives, temperature=1.0).item() == pytest.approx((first + second) / 2, abs=1e-6)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("extra", ["none", "hard", "queue", "both"])
def test_T1_T3_equals_the_loop(extra: str, weight: float) -> None:
    anchors, positives, hard, queue = draws((5, 4), (5, 4), (5, 4), (7, 4))
    hard = hard if extra in ("hard", "both") else None
    queue = queue if extra in ("queue", "both") else None
    expected = info_nce_loop(anchors, positives, queue, hard, weight)
    assert info_nce(anchors, positives, queue, hard, weight).item() == pytest.approx(expected, abs=2e-5)


def test_T3_weight_on_every_hard_negative_is_another_loss() -> None:
    anchors, positives, hard = draws((5, 4), (5, 4), (5, 4))
    own = info_nce(anchors, positives, hard_negatives_BD=hard, hard_negative_weight=2.0).item()
    everywhere = info_nce(anchors, positives, negatives_ND=torch.cat([hard, hard])).item()
    assert abs(own - everywhere) > 1e-3


@pytest.mark.parametrize(("hard", "queue", "value"), [(0, 0, 4.15888), (1, 0, 4.85203), (0, 160, 5.41165)])
def test_T1_all_cosines_equal(hard: int, queue: int, value: float) -> None:
    ones = torch.ones(64, 8)
    loss = info_nce(ones, ones, torch.ones(queue, 8) if queue else None, ones if hard else None)
    assert loss.item() == pytest.approx(value, abs=1e-5)


def test_T2_one_direction() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert abs(info_nce(anchors, positives) - info_nce(positives, anchors)) > 1e-3


def test_small_temperature_does_not_overflow() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert torch.isfinite(info_nce(anchors, positives, temperature=5e-4))


def loop_terms(anchors, positives, temperature=0.05) -> list[float]:
    """-log of each vector's share, term by term in fp64, log-sum-exp by hand."""
    both = torch.cat([anchors, positives]).double()
    n = len(anchors)

    def similar(i, j) -> float:
        return float(both[i] @ both[j]) / float(both[i].norm()) / float(both[j].norm()) / temperature

    terms = []
    for i in range(2 * n):
        others = [similar(i, j) for j in range(2 * n) if j != i]
        top = max(others)
        terms.append(top + math.log(sum(math.exp(s - top) for s in others)) - similar(i, (i + n) % (2 * n)))
    return terms


def test_t2_two_pairs_by_hand() -> None:
    """Unit vectors at 0, 90 (anchors) and 0, 45 degrees (positives): six cosines, four terms."""
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    half = math.sqrt(0.5)
    e = math.exp
    first = math.log(e(1) + e(0) + e(half)) - 1  # anchor 1: partner 1, anchor 2, positive 2
    second = math.log(e(half) + e(0) + e(0)) - half  # anchor 2
    third = math.log(e(1) + e(0) + e(half)) - 1  # positive 1
    fourth = math.log(e(half) + e(half) + e(half)) - half  # positive 2
    expected = (first + second + third + fourth) / 4
    assert nt_xent(anchors, positives, temperature=1.0).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 5e-4])
def test_t24_equals_the_loop(temperature: float) -> None:
    anchors, positives = draws((5, 4), (5, 4))
    terms = loop_terms(anchors, positives, temperature)
    assert nt_xent(anchors, positives, temperature).item() == pytest.approx(sum(terms) / len(terms), rel=2e-5)


def test_t2_both_directions() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert nt_xent(anchors, positives).item() == pytest.approx(nt_xent(positives, anchors).item(), rel=1e-6)


def test_t2_all_cosines_equal_over_the_other_63_vectors() -> None:
    ones = torch.ones(32, 8)
    assert nt_xent(ones, ones).item() == pytest.approx(4.14313, abs=1e-5)


def test_t24_two_anchors_two_positives_two_documents() -> None:
    """Positives are averaged raw, then the cosine is taken; averaging unit vectors is another loss."""
    anchors, each = draws((4, 6), (8, 6))
    averaged = each.view(4, 2, 6).mean(1)
    terms = loop_terms(anchors, torch.stack([(each[2 * i] + each[2 * i + 1]) / 2 for i in range(4)]))
    assert nt_xent(anchors, averaged).item() == pytest.approx(sum(terms) / 8, rel=2e-5)
    unit = torch.nn.functional.normalize(each, dim=1).view(4, 2, 6).mean(1)
    assert abs(nt_xent(anchors, unit) - nt_xent(anchors, averaged)) > 1e-4


def test_t24_small_temperature_is_finite_in_value_and_gradient() -> None:
    anchors, positives = (v.requires_grad_() for v in draws((5, 4), (5, 4)))
    loss = nt_xent(anchors, positives, temperature=5e-4)
    assert torch.isfinite(loss) and loss > 87  # pytorch-metric-learning's cap in fp32
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [anchors, positives]))


def test_half_precision_vectors_are_compared_in_fp32() -> None:
    anchors, positives = draws((5, 4), (5, 4))
    assert nt_xent(anchors.bfloat16(), positives.bfloat16()).dtype == torch.float32


def energy_loop(anchors, positives, hard=None, margin=0.2) -> float:
    """The released models.py:247-259 in words: the worst of what is not the own positive."""

    def cosine(a, b) -> float:
        return float(a @ b) / (float(a.norm()) * float(b.norm()))

    anchors, positives = anchors.double(), positives.double()
    total = 0.0
    for i in range(len(anchors)):
        negatives = [cosine(anchors[i], p) for j, p in enumerate(positives) if j != i]
        negatives += [] if hard is None else [cosine(anchors[i], h) for h in hard.double()]
        total += max(0.0, margin - cosine(anchors[i], positives[i]) + max(negatives))
    return total / len(anchors)


def test_energy_two_by_two_by_hand() -> None:
    """Anchor 1: own 1, other 0.8, hard 0 and 0.6 -> 0; anchor 2: own 0.6, other 0, hard 1 (its own) and 0.8 -> 0.6."""
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    positives = torch.tensor([[3.0, 0.0], [0.8, 0.6]])
    hard = torch.tensor([[0.6, 0.8], [0.0, 1.0]])
    assert energy_hinge(anchors, positives, hard, margin=0.2).item() == pytest.approx((0 + 0.6) / 2, abs=1e-6)


@pytest.mark.parametrize("margin", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("with_hard", [True, False])
def test_energy_equals_the_loop(with_hard: bool, margin: float) -> None:
    anchors, positives, hard = draws((5, 4), (5, 4), (5, 4))
    given = hard if with_hard else None
    expected = energy_loop(anchors, positives, given, margin)
    assert energy_hinge(anchors, positives, given, margin).item() == pytest.approx(expected, abs=1e-6)


def test_a_lone_pair_has_no_negative() -> None:
    anchors, positives = (v.requires_grad_() for v in draws((1, 4), (1, 4)))
    loss = energy_hinge(anchors, positives)
    assert loss.item() == 0
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [anchors, positives]))


def tension_loop(first, second, same) -> float:
    """-log sigmoid(f1 . f2) of a positive pair, -log(1 - sigmoid(f1 . f2)) of a negative one, in fp64."""
    terms = []
    for left, right, positive in zip(first.double().tolist(), second.double().tolist(), same.tolist(), strict=True):
        share = 1 / (1 + math.exp(-sum(a * b for a, b in zip(left, right, strict=True))))
        terms.append(-math.log(share if positive else 1 - share))
    return sum(terms) / len(terms)


def tension_draws(pairs: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    first, second = torch.randn(2, pairs, 4, generator=generator)
    return first, second, torch.arange(pairs) % 4 == 0


def test_one_positive_and_two_negative_pairs_by_hand() -> None:
    """Dot products 2, -1 and 0, not normalised."""
    first, second = torch.tensor([[2.0, 0.0], [1.0, 1.0], [3.0, 0.0]]), torch.tensor([[1.0, 5.0], [0.0, -1.0], [0, 7]])
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1)) + math.log(2)) / 3
    loss = contrastive_tension(first, second, torch.tensor([True, False, False]))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_contrastive_tension_equals_the_loop() -> None:
    assert contrastive_tension(*tension_draws()).item() == pytest.approx(tension_loop(*tension_draws()), rel=1e-6)


def test_large_products_are_finite_in_value_and_gradient() -> None:
    """Untrained mean vectors have dot products of hundreds: a negative pair then costs its dot product."""
    first = torch.full((2, 4), 20.0, requires_grad=True)
    loss = contrastive_tension(first, torch.full((2, 4), 20.0), torch.tensor([True, False]))
    assert loss.item() == pytest.approx(1600 / 2, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, first)
    assert gradient[0].abs().max() == 0 and torch.equal(gradient[1], torch.full((4,), 10.0))


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def information_loop(tokens, sentences, own) -> float:
    """Minus E[-sp(-T(own))] - E[sp(T(other))], both sides less log 2 (Deep InfoMax), in fp64."""
    positive, negative = [], []
    for vector, index in zip(tokens.double(), own.tolist(), strict=True):
        scores = [float(vector @ sentence) for sentence in sentences.double()]
        positive.append(math.log(2) - softplus(-scores[index]))
        negative += [softplus(score) - math.log(2) for j, score in enumerate(scores) if j != index]
    return sum(negative) / len(negative) - sum(positive) / len(positive)


def information_draws() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    tokens, sentences = torch.randn(9, 4, generator=generator), torch.randn(3, 4, generator=generator)
    return tokens, sentences, torch.tensor([2, 0, 0, 1, 2, 1, 1, 1, 0])


def loss_of(tokens, sentences, own) -> float:
    total, count = jensen_shannon(tokens, sentences, own)
    return float(total / count)


def test_two_sentences_and_three_tokens_by_hand() -> None:
    """Dot products with the own sentence 2, 0, -1 and with the other one 1, 3, 0."""
    sentences = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    tokens, own = torch.tensor([[2.0, 1.0], [0.0, 3.0], [0.0, -1.0]]), torch.tensor([0, 0, 1])
    positive, negative = softplus(-2) + softplus(0) + softplus(1), softplus(1) + softplus(3) + softplus(0)
    expected = (positive + negative) / 3 - 2 * math.log(2)
    assert loss_of(tokens, sentences, own) == pytest.approx(expected, abs=1e-6)


def test_jensen_shannon_equals_the_loop() -> None:
    assert loss_of(*information_draws()) == pytest.approx(information_loop(*information_draws()), rel=1e-5)


def test_vectors_that_tell_nothing_cost_nothing() -> None:
    tokens, sentences, own = information_draws()
    assert loss_of(torch.zeros_like(tokens), sentences, own) == pytest.approx(0.0, abs=1e-6)


def test_bits_per_dimension_by_hand() -> None:
    """At z = 0 a dimension costs half of log2(2 pi); a squared length of 2 costs log2(e) more, a log_det of log 4 two
    bits less, both over two dimensions."""
    base = 0.5 * math.log2(2 * math.pi)
    nothing = torch.tensor(0.0)
    assert bits_per_dimension(torch.zeros(1, 2), nothing).item() == pytest.approx(1.3257480647)
    assert bits_per_dimension(torch.ones(1, 2), nothing).item() == pytest.approx(base + math.log2(math.e) / 2)
    assert bits_per_dimension(torch.zeros(3, 2), torch.tensor(math.log(4.0))).item() == pytest.approx(base - 1)


@pytest.mark.parametrize("each", [False, True], ids=["one log_det", "a log_det for each row"])
def test_bits_per_dimension_equals_a_loop(each: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    z_BD = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    log_det = torch.randn(5 if each else (), generator=generator, dtype=torch.float64)
    normal = torch.distributions.Normal(0.0, 1.0)
    total = torch.zeros((), dtype=torch.float64)
    for row in range(5):
        likelihood = log_det[row] if each else log_det
        for value in z_BD[row]:
            likelihood = likelihood + normal.log_prob(value)
        total = total - likelihood / (3 * math.log(2))
    loss = bits_per_dimension(z_BD, log_det)
    torch.testing.assert_close(loss, total / 5)
    torch.testing.assert_close(torch.autograd.grad(loss, z_BD), torch.autograd.grad(total / 5, z_BD))


def corrective_draws() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits, copy = torch.randn(6, 5, generator=generator), torch.randn(6, generator=generator)
    return logits, copy, torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([0, 1, 4, 3, 0, 0])


def test_corrective_lm_by_hand() -> None:
    """Two tokens, two words of equal probability, c = 1/2: copied 1/2 + 1/4, replaced 1/4."""
    total, count = corrective_lm(torch.zeros(2, 2), torch.zeros(2), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert total.item() == pytest.approx(-math.log(3 / 4) - math.log(1 / 4), abs=1e-6)
    assert count.item() == 2


def test_corrective_lm_equals_a_loop_in_probabilities() -> None:
    logits, copy, edited, source = corrective_draws()
    expected = 0.0
    for i in range(6):
        c = 1 / (1 + math.exp(-copy[i].item()))
        p = (1 - c) * logits[i].double().softmax(0)[source[i]].item() + (c if edited[i] == source[i] else 0.0)
        expected -= math.log(p)
    assert corrective_lm(logits, copy, edited, source)[0].item() == pytest.approx(expected, abs=1e-5)


def test_sure_of_the_copy_and_right_costs_nothing_and_stays_finite_when_wrong() -> None:
    logits, one = torch.zeros(1, 4, requires_grad=True), torch.tensor([1])
    sure = torch.tensor([200.0], requires_grad=True)
    assert corrective_lm(logits, sure, one, one)[0].item() == 0.0
    total, _ = corrective_lm(logits, sure, one, torch.tensor([2]))
    total.backward()
    assert total.item() == pytest.approx(200 + math.log(4), abs=1e-3)
    assert torch.isfinite(logits.grad).all() and sure.grad.item() == pytest.approx(1.0)


def replaced_token_of(logits, replaced, attended, reduction: str) -> float:
    total, count = replaced_token(logits, replaced, attended, reduction)
    return float(total / count.clamp(min=1))


def replaced_token_loop(logits, replaced, attended, reduction: str) -> float:
    """D2CSE eq. 2 token by token in fp64; a padded slot counts as an original one where it counts at all."""
    terms = []
    for pair, new, real in zip(logits.double().tolist(), replaced.tolist(), attended.tolist(), strict=True):
        original = 1 / (1 + math.exp(pair[1] - pair[0]))
        if real or reduction == "mean_all":
            terms.append(-math.log(1 - original if new and real else original))
    return sum(terms) if reduction == "sum" else sum(terms) / len(terms)


def token_draws(slots: int = 11, padding: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(slots, 2, generator=generator)
    replaced = torch.rand(slots, generator=generator) < 0.4
    return logits, replaced, torch.arange(slots) < slots - padding


def test_three_tokens_and_a_pad_by_hand() -> None:
    """Certain and right: log(1 + e^-2); certain and wrong: log(1 + e^2); undecided, and the pad: log 2."""
    logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    replaced = torch.tensor([False, True, True, True])
    attended = torch.tensor([True, True, True, False])
    real = math.log(1 + math.exp(-2)) + math.log(1 + math.exp(2)) + math.log(2)
    expected = {"mean_all": (real + math.log(2)) / 4, "mean_attended": real / 3, "sum": real}
    for reduction in REDUCTIONS:
        assert replaced_token_of(logits, replaced, attended, reduction) == pytest.approx(expected[reduction], abs=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_replaced_token_equals_the_loop(reduction: str) -> None:
    assert replaced_token_of(*token_draws(), reduction) == pytest.approx(
        replaced_token_loop(*token_draws(), reduction), abs=1e-5
    )


def test_t12_padding_dilutes_the_released_mean_only() -> None:
    logits, replaced, attended = token_draws()
    more = (
        torch.cat([logits, torch.tensor([[4.0, -4.0]] * 6)]),
        *(torch.cat([t, torch.zeros(6, dtype=torch.bool)]) for t in (replaced, attended)),
    )
    before, after = (
        {r: replaced_token_of(*given, r) for r in REDUCTIONS} for given in ((logits, replaced, attended), more)
    )
    assert after["mean_all"] < before["mean_all"] - 1e-2
    assert after["mean_attended"] == pytest.approx(before["mean_attended"], abs=1e-6)
    assert after["sum"] == pytest.approx(before["sum"], abs=1e-5)


def test_t12_lambda_of_the_sum_is_lambda_of_the_mean_by_the_number_of_tokens() -> None:
    """lambda_sum = lambda_mean / (2B * T): 2B = 6 sequences of T = 5 tokens, nothing padded."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(30, 2, generator=generator, requires_grad=True)
    replaced, attended = torch.rand(30, generator=generator) < 0.3, torch.ones(30, dtype=torch.bool)
    gradients = {}
    for reduction, weight in (("mean_all", 0.005), ("mean_attended", 0.005), ("sum", 0.005 / (6 * 5))):
        total, count = replaced_token(logits, replaced, attended, reduction)
        (gradients[reduction],) = torch.autograd.grad(weight * total / count.clamp(min=1), logits)
    torch.testing.assert_close(gradients["sum"], gradients["mean_all"])
    torch.testing.assert_close(gradients["sum"], gradients["mean_attended"])


def test_t11_what_a_pad_is_labelled_does_not_count() -> None:
    logits, replaced, attended = token_draws()
    for reduction in REDUCTIONS:
        flipped = replaced_token_of(logits, replaced ^ ~attended, attended, reduction)
        assert flipped == replaced_token_of(logits, replaced, attended, reduction)


def similar(a, b, temperature: float) -> float:
    return math.exp(float(a @ b) / (float(a.norm()) * float(b.norm())) / temperature)


def self_guided_loop(sentences, guides, temperature: float, objective: str) -> float:
    """The sums of section 3 as they are written, in fp64."""
    c, h = sentences.double(), guides.double()
    rows, terms = range(len(c)), []
    for i in rows:
        others = [j for j in rows if j != i]
        for k in range(h.shape[1]):
            own = similar(c[i], h[i, k], temperature)
            below = own + sum(similar(c[i], h[j, n], temperature) for j in others for n in range(h.shape[1]))
            if objective in ("base", "opt1"):
                below += sum(similar(c[i], c[j], temperature) for j in others)
            terms.append(-math.log(own / below))
        if objective == "base":
            below = own + sum(similar(h[i, 0], v, temperature) for j in others for v in (c[j], h[j, 0]))
            terms.append(-math.log(own / below))
    return sum(terms) / len(terms)


OBJECTIVES = ("base", "opt1", "opt2", "opt3")


def guided_draws(guides: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(5, 4, generator=generator), torch.randn(5, guides, 4, generator=generator)


def test_two_sentences_by_hand() -> None:
    """c at 0 and 90 degrees, h at 0 and 45: the cosines of c and h are 1, r, 0, r, with r the root of a half."""
    c, h = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[[3.0, 0.0]], [[1.0, 1.0]]])
    e, r = math.exp, math.sqrt(0.5)
    opt2 = (math.log(e(1) + e(r)) - 1 + math.log(e(r) + e(0)) - r) / 2
    opt1 = (math.log(e(1) + e(r) + e(0)) - 1 + math.log(e(r) + e(0) + e(0)) - r) / 2
    assert self_guided(c, h, 1.0, "opt2").item() == pytest.approx(opt2, abs=1e-6)
    assert self_guided(c, h, 1.0, "opt1").item() == pytest.approx(opt1, abs=1e-6)


def test_opt3_of_two_guides_by_hand() -> None:
    """Each guide of sentence 1 has cosine 1 or 0 with its c, and both guides of sentence 2 are its negatives."""
    c = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    h = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]])
    e = math.exp
    first = [math.log(e(own) + e(-1) + e(0)) - own for own in (1, 0)]
    second = [math.log(e(own) + e(1) + e(0)) - own for own in (-1, 0)]
    assert self_guided(c, h, 1.0, "opt3").item() == pytest.approx(sum(first + second) / 4, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_self_guided_equals_the_loop(objective: str, temperature: float) -> None:
    c, h = guided_draws(3 if objective == "opt3" else 1)
    expected = self_guided_loop(c, h, temperature, objective)
    assert self_guided(c, h, temperature, objective).item() == pytest.approx(expected, rel=1e-5)


def test_the_released_opt2_leaves_out_the_first_other_guide() -> None:
    """loss.py:125 cuts [B:] out of B - 1 sentences and B - 1 guides, which are the negatives."""
    c, h = guided_draws(1)
    total = 0.0
    for i in range(5):
        sentences = [similar(c[i].double(), c[j].double(), 0.5) for j in range(5) if j != i]
        guides = [similar(c[i].double(), h[j, 0].double(), 0.5) for j in range(5) if j != i]
        own = similar(c[i].double(), h[i, 0].double(), 0.5)
        total -= math.log(own / (own + sum([*sentences, *guides][5:])))
    assert self_guided(c, h, 0.5, "opt2", every_negative=False).item() == pytest.approx(total / 5, rel=1e-6)
    assert self_guided(c, h, 0.5, "opt2").item() > total / 5 + 1e-3


def test_opt3_with_one_guide_is_opt2() -> None:
    c, h = guided_draws(1)
    assert self_guided(c, h, 0.01, "opt3").item() == pytest.approx(self_guided(c, h, 0.01, "opt2").item(), rel=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_paper_s_temperature_is_finite_in_value_and_gradient(objective: str) -> None:
    c, h = (v.requires_grad_() for v in guided_draws(1))
    loss = self_guided(c, h, 1e-3, objective)
    assert torch.isfinite(loss) and all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [c, h]))


def test_features_and_classification_by_hand() -> None:
    features = pair_features(torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]]))
    assert features.tolist() == [[1.0, -2.0, 3.0, 0.5, 2.0, 2.5]]
    assert product_features(torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])).tolist() == [
        [1.0, -2.0, 3.0, 0.5, 2.0, 2.5, 3.0, -1.0]
    ]
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0]])
    expected = (math.log(3) + math.log(2)) / 2
    assert classification(logits, torch.tensor([1, 0])).item() == pytest.approx(expected, abs=1e-6)


def test_triplet_by_hand() -> None:
    """|a - p| = 5 and |a - n| = 2 cost 4; 1 and 13 cost nothing; 0 and 0 cost the margin, with a finite gradient."""
    anchors = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], requires_grad=True)
    positives = torch.tensor([[3.0, 4.0], [1.0, 2.0], [2.0, 2.0]])
    negatives = torch.tensor([[0.0, 2.0], [6.0, 13.0], [2.0, 2.0]])
    loss = triplet(anchors, positives, negatives)
    assert loss.item() == pytest.approx((4 + 0 + 1) / 3, abs=1e-6)
    loss.backward()
    assert torch.isfinite(anchors.grad).all()


@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
def test_triplet_equals_the_loop(margin: float) -> None:
    anchors, positives, negatives = draws((6, 4), (6, 4), (6, 4))
    total = 0.0
    for a, p, n in zip(anchors.tolist(), positives.tolist(), negatives.tolist(), strict=True):
        total += max(math.dist(a, p) - math.dist(a, n) + margin, 0.0)
    assert triplet(anchors, positives, negatives, margin).item() == pytest.approx(total / 6, abs=1e-6)


@pytest.mark.parametrize("products", [False, True], ids=["sbert", "infersent"])
def test_classification_equals_the_loop(products: bool) -> None:
    left, right, weight = draws((6, 4), (6, 4), (3, 16 if products else 12))
    labels, total = [0, 2, 1, 1, 0, 2], 0.0
    for u, v, label in zip(left.tolist(), right.tolist(), labels, strict=True):
        read = [*u, *v, *(abs(a - b) for a, b in zip(u, v, strict=True))]
        read += [a * b for a, b in zip(u, v, strict=True)] if products else []
        powers = [math.exp(sum(w * x for w, x in zip(row, read, strict=True))) for row in weight.tolist()]
        total -= math.log(powers[label] / sum(powers))
    features = product_features if products else pair_features
    ours = classification(features(left, right) @ weight.T, torch.tensor(labels))
    assert ours.item() == pytest.approx(total / 6, abs=1e-5)


LABELS = torch.tensor([0, 2, 1, 1, 0, 2])


def siamese_draws() -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of SBERT's classifier."""
    left, right, _, weight = draws((6, 4), (6, 4), (6, 4), (3, 12))
    return pair_features(left, right) @ weight.T, LABELS


def queued_info_nce() -> torch.Tensor:
    anchors, positives, hard, queue = draws((5, 4), (5, 4), (5, 4), (7, 4))
    return info_nce(anchors, positives, queue, hard, 2.0)


FROZEN: dict[str, tuple[Callable[[], torch.Tensor | float], object]] = {
    "info_nce": (queued_info_nce, pytest.approx(19.93583, abs=1e-4)),
    "nt_xent": (lambda: nt_xent(*draws((5, 4), (5, 4))), pytest.approx(16.583457, abs=1e-4)),
    "energy_hinge": (lambda: energy_hinge(*draws((5, 4), (5, 4), (5, 4))), pytest.approx(1.1106798, abs=1e-5)),
    "contrastive_tension": (lambda: contrastive_tension(*tension_draws()), pytest.approx(0.8359136, rel=1e-5)),
    "jensen_shannon": (lambda: loss_of(*information_draws()), pytest.approx(0.4008106, rel=1e-5)),
    "bits_per_dimension": (
        lambda: bits_per_dimension(torch.arange(12.0).reshape(3, 4) / 7 - 0.5, torch.tensor(0.25)),
        pytest.approx(1.469895, abs=1e-6),
    ),
    "corrective_lm": (lambda: corrective_lm(*corrective_draws())[0], pytest.approx(6.961184, abs=1e-5)),
    "mean_all": (lambda: replaced_token_of(*token_draws(), "mean_all"), pytest.approx(1.0073650, abs=1e-5)),
    "mean_attended": (lambda: replaced_token_of(*token_draws(), "mean_attended"), pytest.approx(1.0831404, abs=1e-5)),
    "sum": (lambda: replaced_token_of(*token_draws(), "sum"), pytest.approx(8.6651230, abs=1e-5)),
    "base": (lambda: self_guided(*guided_draws(1), 0.05, "base"), pytest.approx(16.58346, rel=1e-5)),
    "opt1": (lambda: self_guided(*guided_draws(1), 0.05, "opt1"), pytest.approx(18.90688, rel=1e-5)),
    "opt2": (lambda: self_guided(*guided_draws(1), 0.05, "opt2"), pytest.approx(15.71891, rel=1e-5)),
    "opt3": (lambda: self_guided(*guided_draws(3), 0.05, "opt3"), pytest.approx(14.2225, rel=1e-5)),
    "triplet": (lambda: triplet(*draws((6, 4), (6, 4), (6, 4))), pytest.approx(1.3022369, abs=1e-5)),
    "classification": (lambda: classification(*siamese_draws()), pytest.approx(2.5915172, abs=1e-5)),
}
"""Provenance: the fp64 loops above on torch.Generator seed 3, first recorded with torch 2.13."""


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_values(name: str) -> None:
    loss, value = FROZEN[name]
    assert float(loss()) == value


IDS = torch.arange(24) % 7
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosines": cosines,
    "info_nce": info_nce,
    "info_nce with negatives": lambda a, b: info_nce(a, b, a.flip(0), b.flip(0), 2.0),
    "nt_xent": nt_xent,
    "energy_hinge": lambda a, b: energy_hinge(a, b, b.flip(0)),
    "replaced_token": lambda a, b: replaced_token(a[:, :2], IDS > 3, IDS >= 0, "mean_all")[0],
    "masked_lm": lambda a, b: masked_lm(a, IDS)[0],
    "corrective_lm": lambda a, b: corrective_lm(a, b[:, 0], IDS, IDS.flip(0))[0],
    "view_statistics": lambda a, b: torch.stack(list(view_statistics(a, b).values())),
    "batch norm": lambda a, b: JointBatchNorm(8, affine=True)(a),
}


@pytest.mark.parametrize("name", LOSSES)
def test_T29_the_same_number_inside_autocast(name: str) -> None:
    generator = torch.Generator().manual_seed(4)
    views = [torch.randn(24, 8, generator=generator) for _ in range(2)]
    outside = LOSSES[name](*views)
    with torch.autocast("cpu", torch.bfloat16):
        inside = LOSSES[name](*views)
    precision = torch.float64 if name == "cosines" else torch.float32
    assert inside.dtype == precision and torch.equal(inside, outside)


def test_T29_bf16_embeddings_lose_nothing_more() -> None:
    """What the encoder rounded stays rounded; the loss on it is that of the rounded numbers in fp32."""
    views = [torch.randn(24, 8, generator=torch.Generator().manual_seed(5)).bfloat16() for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(info_nce(*views), info_nce(*(view.float() for view in views)))


def test_T29_running_statistics_stay_fp32_under_autocast() -> None:
    projector = BatchNormProjector(8)
    with torch.autocast("cpu", torch.bfloat16):
        projector(torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(6)))
    assert all(value.dtype == torch.float32 for value in projector.state_dict().values())
