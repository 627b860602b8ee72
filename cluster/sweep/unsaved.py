"""What Tune is given and must not write down."""

from typing import Any


class Unsaved:
    """Tune pickles what it is given, to restore from; we restore from the ledger, so nothing of ours is written."""

    def __reduce__(self) -> Any:
        return (object, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self
