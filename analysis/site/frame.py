"""The frame of every page of the site: nothing is fetched, and the browser refuses every script but the site's own."""

import base64
import hashlib
import html
from pathlib import Path
from string import Template

from analysis.report.page import STYLE as REPORT_STYLE

FRAME, STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("frame.html", "site.css", "wall.js"))
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def framed(title: str, kind: str, body: str, *, script: bool = False) -> str:
    """A whole page; `kind` is its class, `script` whether it has the wall's filters."""
    source = SCRIPT.read_text(encoding="utf8") if script else ""
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    style = "".join(path.read_text(encoding="utf8") for path in (REPORT_STYLE, STYLE))
    return Template(FRAME.read_text(encoding="utf8")).substitute(
        policy=f"{POLICY}; script-src 'sha256-{digest}'" if source else POLICY,
        title=html.escape(title),
        style=style,
        kind=kind,
        body=body,
        script=f"<script>{source}</script>\n" if source else "",
    )
