"""Is a table run at the paper's own scale? Setting by setting, against what profile `paper` runs for the same cells."""

from cluster.cells import Cell, ResolvedSpace
from cse_train.fields import ConfigError

PAPER = "paper"


def unlike_paper(resolved: ResolvedSpace) -> list[str]:
    """The settings in which some cell's run is not the one of profile `paper`; empty at the paper's own scale.

    The text behind `corpus: file` and an encoder behind a path are not compared: a name stands for itself.
    """
    plain = resolved.profile.name == PAPER and not resolved.overrides
    if plain or resolved.size() is None:
        return [] if plain else ["profile"]
    twins = {cell.id: cell for cell in resolved.space.resolve(PAPER).cells()}
    pairs = [(cell, twins[cell.id]) for cell in resolved.cells() if cell.id in twins]
    return list(dict.fromkeys(name for cell, twin in pairs for name in _differing(cell, twin)))


def _differing(cell: Cell, twin: Cell) -> list[str]:
    try:
        ours, theirs = cell.run(0).flat(), twin.run(0).flat()
    except ConfigError:
        return ["settings"]
    return [name for name in ours if ours[name] != theirs.get(name)]
