"""`cse pretrain`: masked-LM pretraining of a miniature encoder."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands import arguments
from cse_train.fields import ConfigError

if TYPE_CHECKING:
    from cse_train.config import DataPaths
    from cse_train.evaluate.pairs import Pairs

To = Annotated[Path, typer.Option(help="The folder to write; holds the state from which the same command goes on.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="layers, width, tokens, dropout, ...; may be given again."),
]


def pretrain(
    to: To,
    data: arguments.Data = None,
    train_file: arguments.TrainFile = None,
    senteval: arguments.SentEval = None,
    settings: Set = None,
) -> None:
    """Pretrain a miniature encoder by masked LM."""
    given = arguments.settings(settings)
    paths = arguments.data_paths(data, train_file, senteval)
    from cse_train import fields
    from cse_train.pretrain import pretrain as pretrain_one
    from cse_train.pretraining.config import PretrainConfig

    config = fields.make(PretrainConfig, given)
    text = paths.wiki
    if text is None:
        raise ConfigError(
            ["missing data: pretraining needs wiki/wiki_sentences.txt.gz; give --data DIR or --train-file FILE"]
        )
    folder = pretrain_one(config, text, to.resolve(), dev=_dev(paths), progress=_tell)
    print(f"wrote {folder}; use it: --set train.encoder={folder}")


def _dev(paths: "DataPaths") -> "Pairs | None":
    """STS-B dev where SentEval is at hand: its score against tokens seen stands in the card."""
    from cse_train.evaluate.pairs import load_pairs

    return load_pairs("sts_dev", paths) if paths.senteval else None


def _tell(point: dict[str, Any]) -> None:
    print(json.dumps(point), flush=True)
