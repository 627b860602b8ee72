"""`cse export`: writes a run's best checkpoint as a folder that other libraries load."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.answers.lookup import encoder_for, lineage_of, spaces_of_run
from analysis.run_folder import RunFolder
from cse.cli import ledgers, model_options, options
from cse.cli.loader import deferred
from cse_train.fields import ConfigError
from cse_train.files import holds_program_model, lacks_program_model
from search_spaces.identity.user_files import add_user_files

with deferred(__name__):
    from cse_train.export import export as exporting
    from cse_train.export import hub

Layout = Literal["sentence-transformers", "hf"]
"""Libraries whose folder layout `cse export` can write."""

Run = Annotated[
    str, typer.Argument(help="A run's folder, signature, or a sweep, faq or faq:best (what `cse best` picks).")
]
To = Annotated[Path, typer.Option(help="The folder to write.")]
PushToHub = Annotated[str | None, typer.Option(help="OWNER/NAME on the Hugging Face hub, which gets the folder.")]
Private = Annotated[bool, typer.Option("--private", help="A new repository of the hub is private.")]
FormatOption = Annotated[Layout, typer.Option("--format", help="sentence-transformers or hf (transformers).")]


def export(
    run: Run,
    to: To,
    plugins: options.Plugins = None,
    form: FormatOption = "sentence-transformers",
    data: options.Data = None,
    senteval: options.SentEval = None,
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    push_to_hub: PushToHub = None,
    private: Private = False,
    encoder: model_options.Encoder = None,
) -> None:
    """Write a run's best checkpoint with a model card, read it back, and score both on the run's dev set."""
    opened = ledgers.existing_ledger(ledger, storage)
    folder = model_options.run_folder(run, opened)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError([f"folder not empty: to={to}; give a new one"])
    if push_to_hub:
        hub.require_hub(push_to_hub)
    paths = options.data_paths(data, None, senteval)
    lineage = lineage_of(RunFolder.around(folder).path, opened)
    if opened and lineage.signature:
        spaces = spaces_of_run(lineage.signature, opened)
        paths = add_user_files(paths, (file for space in spaces for file in space.files))
    inside = RunFolder(folder).best
    best = inside if inside.is_dir() else folder
    if holds_program_model(best):
        if (form, push_to_hub) != ("sentence-transformers", None):
            line = f"no layout of ours: run={run} is of a program, whose model is copied as it was saved"
            raise ConfigError([f"{line}; leave out --format and --push-to-hub"])
        exporting.copy_model(best, to.resolve())
        print(f"wrote {to.resolve()}, the model as the program saved it")
        return
    if absent := lacks_program_model(folder):
        raise ConfigError([absent])
    place = encoder_for(best, opened, encoder)
    agreement = exporting.export(best, to.resolve(), form, paths=paths, lineage=lineage, encoder=place)
    print(f"wrote {to.resolve()} ({form})")
    print("\n".join(agreement.lines()))
    if push_to_hub:
        message = f"cse export of {run}"
        print(f"pushed {hub.push(to.resolve(), push_to_hub, private=private, message=message)}")
