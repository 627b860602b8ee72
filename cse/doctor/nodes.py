"""What in a Ray cluster would stop a sweep: its address, its nodes, and what each node has."""

import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.runtime.cards import check_cards
from cluster.runtime.code_version import code_digest
from cluster.runtime.join import other_nodes, report_silence, run_on_nodes
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import cards_of, cluster_nodes, limit, slots_that_fit
from cluster.runtime.start import ray_cluster
from cluster.runtime.storage import check_nodes
from cse.doctor.checks import Finding, tell_fit, try_check, versions
from cse_train.fields import ConfigError


@dataclass(frozen=True)
class NodeFacts:
    """What runs on one node."""

    host: str
    versions: Mapping[str, str]
    digest: str
    """Of our packages' files (`cluster.runtime.code_version.code_digest`)."""


def facts() -> NodeFacts:
    """Of the machine that this is called on."""
    return NodeFacts(platform.node(), versions(), code_digest())


def cluster(options: SweepOptions, inputs: Sequence[Path]) -> list[Finding]:
    """Join the cluster at `options.address` and look at every node; a cluster that cannot be joined is one stop."""
    assert options.address is not None
    try:
        with tempfile.TemporaryDirectory() as folder, ray_cluster(Path(folder), address=options.address):
            return [Finding("fine", "cluster", f"joined at {options.address}"), *nodes(options, inputs)]
    except ConfigError as error:
        return [Finding("stop", "cluster", line) for line in error.problems]


def nodes(options: SweepOptions, inputs: Sequence[Path]) -> list[Finding]:
    """The nodes of the cluster that this process has joined: room, code, versions, storage and data."""

    def shared() -> str:
        check_nodes(options.storage, inputs)
        return f"every node reads and writes {options.storage} and has the data given"

    here = cluster_nodes()

    def room() -> str:
        check_cards(options, cards_of(here))
        fit = slots_that_fit(options, here)
        return f"{tell_fit(fit, options)}, limited by {limit(options, here)}"

    findings = [Finding("fine", "node", str(node)) for node in here]
    findings += try_check("cluster", room)
    findings += compare(facts(), run_on_nodes(other_nodes(), facts))
    if options.storage.is_dir():
        findings += try_check("storage", shared)
    return list(dict.fromkeys(findings))


def compare(here: NodeFacts, there: Mapping[str, NodeFacts | str]) -> list[Finding]:
    """A stop for each node with other code or none, a note for each package of another version there."""
    findings = []
    for node, answer in there.items():
        if isinstance(answer, str):
            findings.append(Finding("stop", "node", report_silence(node, answer)))
            continue
        differing = _find_differences(node, here, answer)
        findings += differing or [Finding("fine", "node", f"{node} has this code and these versions")]
    return findings


def _find_differences(node: str, here: NodeFacts, there: NodeFacts) -> list[Finding]:
    findings = []
    if there.digest != here.digest:
        line = f"different code: node={node} digest={there.digest}, here {here.digest}"
        findings.append(Finding("stop", "node", f"{line}; install the same cse-search there"))
    for name, version in here.versions.items():
        other = there.versions.get(name) or "none"
        if other != version:
            line = f"different version: node={node} {name}={other}, here {version}"
            findings.append(Finding("note", "node", f"{line}; install {name} {version} there"))
    return findings
