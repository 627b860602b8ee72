"""Notes under numbers that others' code gave: whose code, with what settings, under what licence."""

from collections.abc import Iterable

from analysis.ledger import Ledger, SweepRow

SOURCE_FACTS = ("source", "about", "licence")
"""Details of an imported run on its source: tool and file, whose code with what settings, the file's licence."""


def list_caveats(sweep: SweepRow, ledger: Ledger, signatures: Iterable[str] | None = None) -> list[str]:
    """Returns a line for each source of the sweep's runs, or of the given signatures."""
    names = [link.signature for link in ledger.cells(sweep.id)] if signatures is None else list(signatures)
    attempts = ledger.provenance(names)
    facts = (attempts[name][-1].details for name in names if attempts.get(name))
    sources = dict.fromkeys(tuple(str(details.get(name) or "") for name in SOURCE_FACTS) for details in facts)
    return [_describe(*source) for source in sources]


def _describe(source: str, settings: str, licence: str) -> str:
    implementation = settings or f"{source}; its settings were not given (--about)"
    return f"another implementation: {implementation}" + (f" (licence {licence})" if licence else "")
