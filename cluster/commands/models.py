"""What `cse eval` and `cse embed` mean by a model."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.commands.run_folder import run_folder

Model = Annotated[
    str,
    typer.Argument(
        metavar="PATH|RUN",
        help="A run's folder, signature or sweep (its best run); a transformers or sentence-transformers folder; "
        "a shipped encoder.",
    ),
]
Pooler = Annotated[
    str | None,
    typer.Option(help="cls, cls_no_mlp, mean, first_last ...: what a plain encoder needs.", show_default=False),
]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", min=1, help="Tokens kept of a text (the model's own).", show_default=False)
]


def model_folder(name: str, ledger: str | None) -> Path:
    """The folder, or the bare name of a shipped encoder. Raises ConfigError where a run's name says nothing."""
    from cse_train.modules.weight_files import shipped_names

    if name in shipped_names() and not Path(name).is_dir():
        return Path(name)
    return run_folder(name, ledger)
