"""`cse check-method`: checks a training method against the methods' contract, on a few steps of a tiny run."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cse.cli import exit, options
from cse.cli.loader import deferred
from cse_train import methods
from cse_train.fields import ConfigError
from cse_train.plugins import registry

with deferred(__name__):
    from cse_train.training import contract

Method = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A method's name, or a .py file with one.")]


def check_method(
    method: Method,
    plugins: options.Plugins = None,
    train_file: options.TrainFile = None,
    settings: options.Set = None,
) -> int:
    """Check that a method keeps the contract and trains: one line for each check, exit code 1 where one fails."""
    name = method
    if Path(method).suffix == ".py" or Path(method).is_file():
        (plugin,) = registry.use([method])
        if plugin.kind != "method":
            raise ConfigError([f"no method: {method} is the suite {plugin.name}; name a method"])
        name = plugin.name
    methods.require(name)
    paths = None if train_file is None else options.data_paths(None, train_file, None)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="cse-check-") as folder:
        for result in contract.check_method(name, options.settings(settings), Path(folder), paths):
            failed += bool(result.problem)
            print(f"FAILS  {result.text}: {result.problem}" if result.problem else f"ok     {result.text}", flush=True)
    print(f"{name}: {failed} checks failed" if failed else f"{name}: keeps the contract")
    return exit.SOME_FAILED if failed else exit.DONE
