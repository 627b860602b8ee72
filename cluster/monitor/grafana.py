"""Grafana dashboard of a sweep; `python -m cluster.monitor.grafana` writes grafana_dashboard.json."""

import json
from pathlib import Path

from cluster.monitor.metrics import METRICS, RAY_GPU_MEMORY

Json = dict[str, object]
GRAFANA_FILE = Path(__file__).with_name("grafana_dashboard.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRAFANA_UNITS = {"cse_seconds_left": "s"} | dict.fromkeys(
    ("cse_run_share", "cse_budget_share", "cse_storage_share"), "percentunit"
)
WIDTH, HEIGHT = 12, 8
"""Size of a panel, in units of Grafana's grid of 24 columns."""


def dashboard() -> Json:
    """Builds the dashboard, with one panel per metric of a sweep and one for GPU memory."""
    panels = []
    for metric in METRICS:
        query = f'max by ({", ".join(metric.labels)}) ({metric.exported}{{sweep=~"$sweep"}})'
        panels.append(_panel(metric.help, [query], metric.labels[1:], GRAFANA_UNITS.get(metric.name, "none")))
    memory = [f"sum by (instance) ({name})" for name in RAY_GPU_MEMORY]
    panels.append(_panel("GPU memory used and available", memory, ("instance",), "decmbytes"))
    for number, panel in enumerate(panels):
        row, column = divmod(number, 24 // WIDTH)
        panel["id"] = number + 1
        panel["gridPos"] = {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT}
    sweeps = f"label_values({METRICS[0].exported}, sweep)"
    sweep = {"name": "sweep", "type": "query", "datasource": SOURCE, "query": sweeps, "definition": sweeps}
    choice = {"includeAll": True, "multi": True, "allValue": ".*", "refresh": 2, "sort": 1}
    variables = [{"name": "datasource", "type": "datasource", "query": "prometheus"}, sweep | choice]
    return {
        "uid": "cse-search",
        "title": "cse-search",
        "tags": ["ray", "cse-search"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }


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


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    GRAFANA_FILE.write_text(text(), encoding="utf8")
