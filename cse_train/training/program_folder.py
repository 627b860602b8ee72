"""Best model and checkpoints of a program's run, safe at every kind of end: saved aside, renamed, taken over.

last/points.jsonl     what was reported, a line each
last/output/          the `output_dir` of the program: its checkpoints, and what else it writes
last/.best-new        a best model that is being saved
last/.best-before     the best before it, for a run that resumes from a checkpoint before the newest best
last/end.json         written when the run has ended in order
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from cse_train.encoder.folders import BASES, place_bases
from cse_train.files import (
    BEST_FOLDER,
    LAST_FOLDER,
    PROGRAM_DIGESTS,
    PROGRAM_MARK,
    PROGRAM_POINTS,
    copy_tree,
    hash_file,
    read_digests,
    replace_text,
)
from cse_train.results import Json, Point

CHECKPOINT = "checkpoint-"
"""Prefix of the folder of a checkpoint of transformers; the step follows."""
STATE_FILE = "trainer_state.json"
"""File that transformers writes last into a checkpoint."""
FIT_FILE = "cse_fit"
"""File with the number of the fit in a checkpoint of a run that trains more than once; absent for fit 0."""
WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
"""Endings of files that nobody writes into again: a resuming attempt hard-links them."""


@dataclass(frozen=True)
class TrialFolder:
    """Folder of an attempt at a program's run, and the files that it keeps there."""

    path: Path

    @property
    def last(self) -> Path:
        return self.path / LAST_FOLDER

    @property
    def best(self) -> Path:
        return self.path / BEST_FOLDER

    @property
    def output(self) -> Path:
        return self.last / "output"

    @property
    def points_file(self) -> Path:
        return self.path / PROGRAM_POINTS

    @property
    def end_file(self) -> Path:
        return self.last / "end.json"

    def read_points(self) -> list[Point]:
        """Reads the points that were reported; a line that a killed process left unfinished does not count."""
        lines = self.points_file.read_text(encoding="utf8").splitlines(True) if self.points_file.is_file() else []
        return [Point(**json.loads(line)) for line in lines if line.endswith("\n")]

    def add_point(self, point: Point) -> None:
        with self.points_file.open("a", encoding="utf8") as file:
            file.write(json.dumps(asdict(point)) + "\n")

    def write_points(self, points: list[Point]) -> None:
        text = "".join(json.dumps(asdict(point)) + "\n" for point in points)
        replace_text(self.points_file, text)

    def take_over(self, earlier: Path) -> None:
        """Copies what an earlier attempt kept into this folder, so that this attempt begins with it."""
        source = TrialFolder(earlier)
        aside = self.path / f".{LAST_FOLDER}"
        shutil.rmtree(aside, ignore_errors=True)
        copy_tree(source.last, aside, _link)
        shutil.rmtree(self.last, ignore_errors=True)
        if source.best.is_dir() and not self.best.is_dir():
            copy_tree(source.best, self.best, _link)
        for state in aside.rglob(STATE_FILE):
            text = state.read_text(encoding="utf8")
            state.write_text(text.replace(str(source.output), str(self.output)), encoding="utf8")
        aside.rename(self.last)


def _link(source: str, target: str) -> None:
    if source.endswith(WEIGHT_ENDINGS):
        try:
            os.link(source, target)
            return
        except OSError:  # another file system, or one without links
            pass
    shutil.copy2(source, target)


class BestModel:
    """Saves a run's best model aside and then publishes it; keeps the one before it as well."""

    def __init__(self, last: Path, best: Path, facts: Json) -> None:
        self.aside, self.previous, self.best, self._facts = last / ".best-new", last / ".best-before", best, facts
        self._mark: Json | None = None

    def begin(self, step: int, score: float) -> Path:
        """Publishes an earlier save, and returns an empty folder for the model of this step."""
        self.publish()
        shutil.rmtree(self.aside, ignore_errors=True)
        self.aside.mkdir(parents=True)
        self._mark = {**self._facts, "step": step, "score": score}
        _write_mark(self.aside, self._mark)
        return self.aside

    def publish(self) -> None:
        """Makes what was saved since `begin` the best model; does nothing if nothing was saved."""
        if self._mark is not None and _has_files(self.aside):
            bases = place_bases(self.aside)
            _write_mark(self.aside, {**self._mark, **({BASES: bases} if bases else {})})
            if self.best.is_dir():
                shutil.rmtree(self.previous, ignore_errors=True)
                self.best.rename(self.previous)
            self.aside.rename(self.best)
        self._mark = None

    def settle(self, step: int) -> None:
        """Makes the newest model from before a step the best one: the run resumes there and reports the rest again."""
        steps = ((_read_step(place), place) for place in (self.aside, self.best, self.previous))
        places = [(number, place) for number, place in steps if number is not None]
        fitting = [pair for pair in places if pair[0] < step and (pair[1] != self.aside or _has_files(self.aside))]
        chosen = max(fitting)[1] if fitting else None
        for _, place in places:
            if place != chosen:
                shutil.rmtree(place)
        if chosen is not None and chosen != self.best:
            chosen.rename(self.best)

    def clean(self) -> None:
        """Deletes all but the best model: the run has ended."""
        for place in (self.aside, self.previous):
            shutil.rmtree(place, ignore_errors=True)


def _write_mark(folder: Path, mark: Json) -> None:
    replace_text(folder / PROGRAM_MARK, json.dumps(mark, indent=1) + "\n")


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(path.name != PROGRAM_MARK for path in folder.iterdir())


def _read_step(folder: Path) -> int | None:
    mark = folder / PROGRAM_MARK
    return int(json.loads(mark.read_text(encoding="utf8"))["step"]) if mark.is_file() else None


def mark_checkpoint(output: Path, step: int, fit: int) -> None:
    """Writes into a checkpoint the number of the fit that wrote it, unless it is the first, 0."""
    folder = output / f"{CHECKPOINT}{step}"
    if fit and folder.is_dir():
        (folder / FIT_FILE).write_text(str(fit), encoding="utf8")


def _read_fit(folder: Path) -> int:
    return int((folder / FIT_FILE).read_text(encoding="utf8")) if (folder / FIT_FILE).is_file() else 0


def find_checkpoint(output: Path, fit: int | None = None) -> Path | None:
    """Returns the newest complete checkpoint of transformers in a folder, of fit `fit` only if that is given."""
    places = [path.parent for path in output.glob(f"{CHECKPOINT}*/{STATE_FILE}")]
    places = [path for path in places if fit in (None, _read_fit(path))]
    numbered = {int(number): path for path in places if (number := path.name.removeprefix(CHECKPOINT)).isdigit()}
    return numbered[max(numbered)] if numbered else None


class NotJudged(Exception):
    """A model cannot be compared with what was saved; the message says why."""


class DamagedModel(Exception):
    """A model differs from what was saved, or is another run's; the message says where."""


def read_finished(folder: Path, signature: str, examples: int) -> list[Point]:
    """Returns the points of the program's run of this signature, or none if it did not end in order."""
    trial_folder = TrialFolder(folder)
    try:
        end = json.loads(trial_folder.end_file.read_text(encoding="utf8"))
        return trial_folder.read_points() if end.get("signature") == signature else []
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return []


def check_model(folder: Path, signature: str) -> None:
    """Raises DamagedModel or NotJudged unless the best model of a program's run is the one that it saved.

    A run without a model passes where it saved none, or where `cse clean` freed it. Raises OSError for files that this
    machine cannot read.
    """
    best, files = TrialFolder(folder).best, read_digests(folder)
    if not best.is_dir():
        if files:
            raise DamagedModel(f"{best}: its model was deleted, and not by cse clean")
        return
    stored = _read_signature(best / PROGRAM_MARK)
    if stored not in (None, signature):
        raise DamagedModel(f"{best}: it is of another run, {str(stored)[:12]} and not {signature[:12]}")
    if files is None:
        is_listed = (folder / PROGRAM_DIGESTS).exists()
        cause = f"{PROGRAM_DIGESTS} is damaged" if is_listed else "it was saved by a version without checksums"
        raise NotJudged(f"{best}: {cause}")
    for name, digest in files.items():
        path = best / name
        if not path.is_file() or hash_file(path) != digest:
            reason = "it is not what was written, by its checksum" if path.is_file() else "it is gone"
            raise DamagedModel(f"{path}: {reason}")


def _read_signature(mark: Path) -> object:
    """Returns the signature of the run to which a model belongs; None if the mark is damaged or names none."""
    try:
        return json.loads(mark.read_bytes()).get("signature") or None
    except (FileNotFoundError, ValueError, AttributeError, RecursionError):
        return None
