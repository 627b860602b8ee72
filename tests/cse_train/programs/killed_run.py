"""A run that dies by SIGKILL before update STEP: SETTINGS_JSON TRAIN_FILE FOLDER STEP."""

import json
import os
import signal
import sys
from pathlib import Path

import torch

from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training import loop


def main(settings: str, text: str, folder: str, step: int) -> None:
    torch.set_num_threads(1)
    update = loop.Session.update

    def dying(session: loop.Session) -> dict:
        if session.step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(session)

    loop.Session.update = dying  # type: ignore[method-assign]
    loop.train(
        parse_run(json.loads(settings)),
        DataPaths(train_file=Path(text)),
        Path(folder),
        lambda point: False,
        save_minutes=0,
    )


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))  # type: ignore[arg-type]
