"""A card pretended on a CPU: it holds CUDA's rules on devices, and computes with the CPU's kernels.

A tensor on the card is a `CardTensor`: its device is `CARD` (torch's `meta`, which no other code here uses), and its
numbers lie in a CPU tensor inside it. Every operation on one is looked at before it is computed:

- one that mixes devices raises RuntimeError, as CUDA does, and is noted in `faults`: also where somebody catches it;
- one for which the host must wait until the card is idle is noted in `waits`: a read (`item`, `tolist`, `cpu`), and a
  result whose size depends on numbers (a boolean mask, `nonzero`, `repeat_interleave` without its `output_size`).

Both name the first line outside torch. `launches` counts by name what CUDA starts a kernel for: all but views and empty
tensors. What it has not: streams and kernels (nothing says how fast a step is), memory, cuDNN, NCCL, CUDA graphs,
autocast (bf16 computes in fp32), torch.compile, and changes of a tensor's shape in place.
A method's branches `device.type == "cpu"` are not taken, so numbers may differ from a CPU's by rounding, and dropout's
masks are torch's own.
"""

import contextlib
import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cse_train import checkpoint, distributed
from cse_train.training import batches

CARD = torch.device("meta")
CPU = torch.device("cpu")
TAKES_A_SCALAR = ("aten::fill_", "aten::masked_fill", "aten::masked_fill_")
"""Beside what is computed number by number: operations that take a number of the CPU's as a tensor of no dimension."""
MAY_MIX = ("aten::copy_", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence", "aten::lstm")
"""Operations on both devices; the lengths and batch sizes of a packed sequence are the CPU's."""
PUTS = ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
MASKS = (torch.bool, torch.uint8)
NO_KERNEL = ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided",
             "aten::detach", "aten::_unsafe_view", "aten::_reshape_alias")  # fmt: skip
"""Operations that are no views by their schema and start none."""
TORCH = torch.__path__[0]


class CardTensor(torch.Tensor):
    """A tensor on the card; `inside` has its numbers."""

    inside: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inside: torch.Tensor, requires_grad: bool = False) -> "CardTensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=CARD,
            requires_grad=requires_grad,
        )
        made.inside = inside
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"CardTensor({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert _cards, "a tensor of a pretended card is used after its end"
        return _cards[-1].run(func, args, kwargs or {})


_cards: list["PretendCard"] = []
"""The card that is plugged in."""


def on_card(value: Any) -> bool:
    return isinstance(value, CardTensor)


def changed(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Nested data with each of its tensors changed; torch's own `tree_map` takes half of a step's time."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: changed(each, change) for name, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([changed(each, change) for each in value])
    return value


def inside(value: Any) -> Any:
    """Nested data in which what lies on the card is the CPU's."""
    return changed(value, lambda tensor: tensor.inside if isinstance(tensor, CardTensor) else tensor)


def off_card(value: Any) -> Any:
    """Nested data with copies of the card's tensors in main memory, as a file holds them."""
    return changed(value, lambda tensor: tensor.inside.detach().clone() if isinstance(tensor, CardTensor) else tensor)


def place() -> str:
    """`FILE:LINE` of the innermost frame that is neither torch's nor this module's."""
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith(TORCH)):
        frame = frame.f_back
    return f"{'/'.join(frame.f_code.co_filename.split('/')[-2:])}:{frame.f_lineno}"


@dataclass
class PretendCard:
    """What went wrong on the card, and what it had to be waited for, by the line that did it."""

    faults: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    launches: Counter[str] = field(default_factory=Counter)

    @contextlib.contextmanager
    def plugged_in(self) -> Iterator["PretendCard"]:
        """Within it `distributed.device()` is the card, and training, evaluation and checkpoints work on it."""
        with pytest.MonkeyPatch.context() as patched, _Functions(self), _Operations(self):
            _cards.append(self)
            for owner, name, value in _replacements(self):
                patched.setattr(owner, name, value)
            try:
                yield self
            finally:
                _cards.pop()

    def run(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """One operation of torch's dispatcher."""
        tensors: list[torch.Tensor] = []
        changed((args, kwargs), tensors.append)
        asked = None if kwargs.get("device") is None else torch.device(kwargs["device"])
        if not any(map(on_card, tensors)) and asked != CARD:
            return func(*args, **kwargs)
        self._look_at(func, tensors, args, kwargs, asked)
        if not func.is_view and func._schema.name not in NO_KERNEL:
            self.launches[func._schema.name] += 1
        here = {name: CPU if name == "device" and value is not None else value for name, value in kwargs.items()}
        found = func(*inside(args), **inside(here))
        if asked not in (None, CARD):
            return found
        if func._schema.name == "aten::_pack_padded_sequence":
            return CardTensor(found[0]), found[1]
        given = {id(tensor.inside): tensor for tensor in tensors if isinstance(tensor, CardTensor)}
        fresh = func._schema.name == "aten::_to_copy"  # what is changed in place is the same tensor as before
        return changed(found, lambda tensor: CardTensor(tensor) if fresh else given.get(id(tensor), CardTensor(tensor)))

    def _look_at(self, func: Any, tensors: Any, args: Any, kwargs: Any, asked: torch.device | None) -> None:
        name = func._schema.name
        strange = [tensor for tensor in tensors if not on_card(tensor)]
        if strange and name not in ("aten::_to_copy", *MAY_MIX):
            self._look_at_mixed(name, func, args, strange)
        masked = name in ("aten::index", *PUTS) and any(on_card(i) and i.dtype in MASKS for i in args[1])
        sized = torch.Tag.dynamic_output_shape in func.tags and name not in ("aten::index", *PUTS)
        if name == "aten::repeat_interleave":
            sized = kwargs.get("output_size") is None
        if (
            masked
            or sized
            or torch.Tag.data_dependent_output in func.tags
            or (asked == CPU and any(map(on_card, tensors)))
        ):
            self.waits[f"{name.removeprefix('aten::')} {place()}"] += 1

    def _look_at_mixed(self, name: str, func: Any, args: Any, strange: list[torch.Tensor]) -> None:
        """CUDA's rules: a tensor of no dimension may be the CPU's, and so may the places of an index."""
        scalars = all(tensor.dim() == 0 for tensor in strange)
        if name == "aten::index":
            allowed = on_card(args[0])
        elif name in PUTS:
            allowed = on_card(args[0]) and (on_card(args[2]) or args[2].dim() == 0)
        else:
            number_by_number = torch.Tag.pointwise in func.tags or "_foreach_" in name or name in TAKES_A_SCALAR
            allowed = scalars and number_by_number
        if not allowed:
            line = f"{name.removeprefix('aten::')} of tensors on the card and on the CPU at {place()}"
            self.faults[line] += 1
            raise RuntimeError(f"Expected all tensors to be on the same device, {line}")


class _Operations(TorchDispatchMode):
    """Sends operations without a tensor of the card's, such as `torch.zeros(3, device=CARD)`, the same way."""

    def __init__(self, card: PretendCard) -> None:
        super().__init__()
        self.card = card

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.card.run(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """What torch does in C++ without its dispatcher: from Python's numbers to the card and back."""

    def __init__(self, card: PretendCard) -> None:
        super().__init__()
        self.card = card

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and kwargs.get("device") is not None:
            made = func(*args, **{name: value for name, value in kwargs.items() if name != "device"})
            return made.to(kwargs["device"])
        if args and isinstance(args[0], CardTensor):
            if func is torch.Tensor.new_tensor:
                return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(CARD)
            if func is torch.Tensor.tolist:
                self.card.waits[f"tolist {place()}"] += 1
                return args[0].inside.tolist()
            if func is F.scaled_dot_product_attention:
                return _Attention.apply(*args, kwargs["attn_mask"], kwargs["dropout_p"])
            if func is torch.Tensor.numpy:
                self.card.faults[f"numpy at {place()}"] += 1
                raise TypeError("can't convert the card's tensor to numpy. Use Tensor.cpu() first")
        return func(*args, **kwargs)


class _Attention(torch.autograd.Function):
    """Torch's fused attention: one kernel forwards, one backwards, which keeps neither scores nor dropout's mask."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, rate: float) -> Any:
        ctx.save_for_backward(query, key, value, mask)
        ctx.rate, ctx.drawn = rate, torch.get_rng_state()
        return _Attention.launched(query, key, value, mask, rate)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.random.fork_rng():
            torch.set_rng_state(ctx.drawn)
            return *_Attention.launched(*ctx.saved_tensors, ctx.rate, grad), None, None

    @staticmethod
    def launched(query: Any, key: Any, value: Any, mask: Any, rate: float, grad: Any = None) -> Any:
        """What the kernel writes: the mixed values, or with their gradient those of query, key and value."""
        _cards[-1].launches["attention"] += 1
        with torch.set_grad_enabled(grad is not None), torch._C._DisableTorchDispatch():
            parts = [part.inside.detach().requires_grad_(grad is not None) for part in (query, key, value)]
            mixed = F.scaled_dot_product_attention(*parts, attn_mask=inside(mask), dropout_p=rate)
            if grad is None:
                return CardTensor(mixed)
            return [CardTensor(each) for each in torch.autograd.grad(mixed, parts, grad.inside)]


class _CardThread(ThreadPoolExecutor):
    """A thread whose operations reach the card: torch's modes are a thread's own."""

    def __init__(self, card: PretendCard, *about: Any) -> None:
        super().__init__(*about)
        self.card = card

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        def run() -> Any:
            with _Functions(self.card), _Operations(self.card):
                return function(*given, **named)

        return super().submit(run)


def _replacements(card: PretendCard) -> Iterator[tuple[Any, str, Any]]:
    """Where a library asks for the kind of device: owner, name, and what it is on the card."""
    yield batches, "ThreadPoolExecutor", functools.partial(_CardThread, card)
    yield distributed, "device", lambda: CARD
    yield distributed, "has_card", lambda: True
    optimiser = importlib.import_module("torch.optim.optimizer")
    yield optimiser, "_get_fused_kernels_supported_devices", lambda: ["cpu", CARD.type]
    several = importlib.import_module("torch.utils._foreach_utils")  # one kernel for many tensors, as in clipping
    yield several, "_get_foreach_kernels_supported_devices", lambda: [CARD.type]
    yield several, "_foreach_supported_types", [*several._foreach_supported_types, CardTensor]
    yield torch, "autocast", _autocast(torch.autocast)
    yield torch, "inference_mode", lambda mode=True: torch.no_grad()  # its tensors cannot be wrapped
    save, save_file = torch.save, checkpoint.save_file
    yield torch, "save", lambda value, *rest: save(off_card(value), *rest)
    yield checkpoint, "save_file", lambda tensors, *rest, **named: save_file(off_card(tensors), *rest, **named)


def _autocast(real: Callable[..., Any]) -> Callable[..., Any]:
    def autocast(device_type: str, *rest: Any, **named: Any) -> Any:
        return contextlib.nullcontext() if device_type == CARD.type else real(device_type, *rest, **named)

    return autocast
