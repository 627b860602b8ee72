"""The functions that `import cse` gives, with their signatures, docstrings and what they return."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import cse
from analysis import frames
from cse.cli import python
from cse.compare.candidate import GateVerdict
from cse.compare.comparison import Comparison

HEAD = """\
# Python: `import cse`

The commands as functions, for a notebook or a script. Options have the names of the command line: `seeds=3` is
`--seeds 3`, `set={"train.examples": 6400}` is `--set train.examples=6400`. A mistake is a `ConfigError` or a
`LedgerError` with a line for each problem.

```python
import cse

print(cse.plan("E7", profile="tiny"))
cse.table("E7", profile="tiny").to_frame()
```
"""
RESULTS = (
    python.ShownPlan,
    python.ShownTable,
    python.ShownReproduction,
    python.CommandAnswer,
    Comparison,
    GateVerdict,
)


def page() -> str:
    """The page, in Markdown."""
    functions = [
        _function(f"cse.{name}", getattr(importlib.import_module(module), name))
        for name, module in cse.COMMANDS.items()
    ]
    ledgers = [_function(f"cse.frames.{name}", getattr(frames, name)) for name in cse.FRAMES]
    results = [_class(shape) for shape in RESULTS]
    headed = [HEAD, "## The commands", *functions, "## The ledger as pandas frames", *ledgers, "## What they return"]
    return "\n\n".join([*headed, *results]) + "\n"


def _function(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    lines = [f"    {_short(str(parameter))}," for parameter in signature.parameters.values()]
    if any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in signature.parameters.values()):
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in kinds:
            lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "    *,")
    returned = _short(inspect.formatannotation(signature.return_annotation))
    text = "\n".join([f"{name}(", *lines, f") -> {returned}"])
    return f"### {name}\n\n```python\n{text}\n```\n\n{inspect.getdoc(function) or ''}"


def _class(shape: type) -> str:
    """Its public fields and methods."""
    fields = [f"{field.name}: {_short(str(field.type))}" for field in dataclasses.fields(shape)]
    methods = [
        f"`{name}()`\n:   {' '.join((inspect.getdoc(member) or '').split())}"
        for name, member in vars(shape).items()
        if not name.startswith("_") and inspect.isfunction(member)
    ]
    code = "\n".join(fields)
    return "\n\n".join([f"### {shape.__name__}", inspect.getdoc(shape) or "", f"```python\n{code}\n```", *methods])


def _short(annotation: str) -> str:
    """Without the modules of names, and with the alias of paths."""
    plain = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])|<class '([\w.]+)'>", lambda match: match[1] or "", annotation)
    return plain.replace("str | Path", "path").replace("Mapping[str, bool | int | float | str | None]", "mapping")
