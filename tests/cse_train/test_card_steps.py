"""A step of every method on the way of a card, gone on a CPU in fp32 without dropout, against the CPU's own."""

from collections.abc import Callable

import pytest

from cse_train import distributed, methods, numerics
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from tests.cse_train.test_gpu import first_step

VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "simcse with a masked LM": ("simcse", {"method_mlm_weight": 0.1}),
    "simcse, means": ("simcse", {"method_pooler": "mean"}),
    "dcpcse with prompts of 5": ("dcpcse", {"method_prompt_length": 5}),
    "diffcse with a masked LM": ("diffcse", {"method_task": "masked_lm"}),
    "diffcse with a corrective LM": ("diffcse", {"method_task": "corrective_lm"}),
    "diffcse with a mean of attended tokens": ("diffcse", {"method_reduction": "mean_attended"}),
    "d2cse with a mean of attended tokens": ("d2cse", {"method_reduction": "mean_attended"}),
    "consert with a shuffle": ("consert", {"method_augmentation_1": "shuffle"}),
    "sgopt with all guides": ("sgopt", {"method_objective": "opt3"}),
}
"""Name -> a method and options that read other tensors."""
CASES = {**{name: (name, {}) for name in methods.names()}, **VARIANTS}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_the_cpus(
    case: str,
    tiny_settings: Callable[..., dict],
    tiny_paths: Callable[[str], DataPaths],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, changes = CASES[case]
    run, paths = parse_run(tiny_settings(method, train_dropout=0.0, **changes)), tiny_paths(method)
    wanted, exact = first_step(run, paths, "cpu", "fp32")
    monkeypatch.setattr(numerics, "is_card", lambda device: True)
    monkeypatch.setattr(distributed, "has_card", lambda: True)
    monkeypatch.setattr(distributed, "device", lambda: exact.device)
    loss, gradients = first_step(run, paths, "cpu", "fp32")
    assert loss == pytest.approx(wanted, rel=1e-5)  # 6e-6 on a CPU with AVX-512, of promptbert's small temperature
    if len(exact):
        assert (gradients - exact).norm() < 1e-5 * exact.norm()
