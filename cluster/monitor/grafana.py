"""The Grafana dashboard of a sweep: `python -m cluster.monitor.grafana` writes grafana_dashboard.json."""

import json
from pathlib import Path
from typing import Any

from cluster.monitor.metrics import METRICS, RAY_GPU_MEMORY, PrometheusMetric

Json = dict[str, Any]
GRAFANA_FILE = Path(__file__).with_name("grafana_dashboard.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRAFANA_UNITS = {"cse_seconds_left": "s", "cse_run_share": "percentunit"}
WIDTH, HEIGHT = 12, 8
"""Of a panel, in Grafana's grid of 24 columns."""


def dashboard() -> Json:
    """One panel per metric of a sweep, and one for the memory of GPUs."""
    panels = [_panel(m.help, [_query(m)], m.labels[1:], GRAFANA_UNITS.get(m.name, "none")) for m in METRICS]
    memory = [f"sum by (instance) ({name})" for name in RAY_GPU_MEMORY]
    panels.append(_panel("GPU memory used and available", memory, ("instance",), "decmbytes"))
    return {
        "uid": "cse-search",
        "title": "cse-search",
        "tags": ["ray", "cse-search"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [panel | _place(number) for number, panel in enumerate(panels)],
    }


def _query(metric: PrometheusMetric) -> str:
    by = ", ".join(metric.labels)
    return f'max by ({by}) ({metric.exported}{{sweep=~"$sweep"}})'


def _panel(title: str, queries: list[str], labels: tuple[str, ...], unit: str) -> Json:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels or ("sweep",))
    targets = [
        {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": legend}
        for i, query in enumerate(queries)
    ]
    defaults = {"unit": unit, "custom": {"lineWidth": 2, "fillOpacity": 0}}
    return {
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


def _place(number: int) -> Json:
    row, column = divmod(number, 24 // WIDTH)
    return {"id": number + 1, "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT}}


def _variables() -> list[Json]:
    query = f"label_values({METRICS[0].exported}, sweep)"
    sweep = {"name": "sweep", "type": "query", "datasource": SOURCE, "query": query, "definition": query}
    choice = {"includeAll": True, "multi": True, "allValue": ".*", "refresh": 2, "sort": 1}
    return [{"name": "datasource", "type": "datasource", "query": "prometheus"}, sweep | choice]


def text() -> str:
    """The published file's content."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    GRAFANA_FILE.write_text(text(), encoding="utf8")
