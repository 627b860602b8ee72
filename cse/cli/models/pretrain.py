"""`cse pretrain`: pretrains a miniature encoder with masked language modelling."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cse.cli import options
from cse.cli.loader import deferred
from cse_train import fields
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError, Json
from cse_train.text.vector_files import PACKAGED

with deferred(__name__):
    from cse_train.pretrain import pretrain as pretraining

To = Annotated[Path, typer.Option(help="The folder to write; holds the state from which the same command goes on.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="layers, width, tokens, dropout, ...; may be given again."),
]
Embeddings = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Word vectors to start from: glove (the extra of that name) or a file."),
]


def pretrain(
    to: To,
    data: options.Data = None,
    train_file: options.TrainFile = None,
    senteval: options.SentEval = None,
    embeddings: Embeddings = None,
    settings: Set = None,
) -> None:
    """Pretrain a miniature encoder by masked LM."""
    values = options.settings(settings)
    if name := embeddings or values.get("embeddings"):
        values["embeddings"] = PACKAGED if name in ("glove", PACKAGED) else str(Path(str(name)).expanduser().resolve())
    paths = options.data_paths(data, train_file, senteval)
    config = fields.make(pretraining.PretrainConfig, values)
    text = paths.wiki
    if text is None:
        lacks = "missing data: pretraining needs wiki/wiki_sentences.txt.gz"
        raise ConfigError([f"{lacks}; give --data DIR or --train-file FILE, or cse data get wiki1m"])
    dev = load_pairs("sts_dev", paths) if paths.senteval else None  # its score against tokens seen stands in the card

    def tell(point: Json) -> None:
        print(json.dumps(point), flush=True)

    folder = pretraining.pretrain(config, text, to.resolve(), dev=dev, progress=tell)
    print(f"wrote {folder}; use it: --set train.encoder={folder}")
