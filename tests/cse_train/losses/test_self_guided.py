"""SG-OPT's objectives three ways: literal, loop oracle, frozen values; two ranks are test_distributed.py."""

import math

import pytest
import torch

from cse_train.losses import self_guided


def similar(a, b, temperature: float) -> float:
    return math.exp(float(a @ b) / (float(a.norm()) * float(b.norm())) / temperature)


def loop_oracle(sentences, guides, temperature: float, objective: str) -> float:
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


def draws(guides: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(5, 4, generator=generator), torch.randn(5, guides, 4, generator=generator)


FROZEN = {"base": 16.58346, "opt1": 18.90688, "opt2": 15.71891, "opt3": 14.2225}


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
@pytest.mark.parametrize("objective", list(FROZEN))
def test_equals_the_loop(objective: str, temperature: float) -> None:
    c, h = draws(3 if objective == "opt3" else 1)
    expected = loop_oracle(c, h, temperature, objective)
    assert self_guided(c, h, temperature, objective).item() == pytest.approx(expected, rel=1e-5)


def test_the_released_opt2_leaves_out_the_first_other_guide() -> None:
    """loss.py:125 cuts [B:] out of B - 1 sentences and B - 1 guides, which are the negatives."""
    c, h = draws(1)
    total = 0.0
    for i in range(5):
        sentences = [similar(c[i].double(), c[j].double(), 0.5) for j in range(5) if j != i]
        guides = [similar(c[i].double(), h[j, 0].double(), 0.5) for j in range(5) if j != i]
        own = similar(c[i].double(), h[i, 0].double(), 0.5)
        total -= math.log(own / (own + sum([*sentences, *guides][5:])))
    assert self_guided(c, h, 0.5, "opt2", every_negative=False).item() == pytest.approx(total / 5, rel=1e-6)
    assert self_guided(c, h, 0.5, "opt2").item() > total / 5 + 1e-3


def test_opt3_with_one_guide_is_opt2() -> None:
    c, h = draws(1)
    assert self_guided(c, h, 0.01, "opt3").item() == pytest.approx(self_guided(c, h, 0.01, "opt2").item(), rel=1e-6)


@pytest.mark.parametrize("objective", list(FROZEN))
def test_the_paper_s_temperature_is_finite_in_value_and_gradient(objective: str) -> None:
    c, h = (v.requires_grad_() for v in draws(1))
    loss = self_guided(c, h, 1e-3, objective)
    assert torch.isfinite(loss) and all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [c, h]))


@pytest.mark.parametrize("objective", list(FROZEN))
def test_frozen_values(objective: str) -> None:
    """Provenance: the fp64 loop oracle above on torch.Generator seed 3, first recorded with torch 2.13."""
    c, h = draws(3 if objective == "opt3" else 1)
    assert self_guided(c, h, 0.05, objective).item() == pytest.approx(FROZEN[objective], rel=1e-5)
