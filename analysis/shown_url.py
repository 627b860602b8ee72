"""A ledger's address as it may be shown: in print, in a page, in the command that repeats a table."""

import re

from sqlalchemy.engine import URL

PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^/]*@|(?<=[?&])(password|passfile|sslpassword)=[^&]*")


def shown_url(url: str | URL) -> str:
    """The address with `***` for a password, wherever in it that stands: SQLAlchemy hides it before the `@` alone."""
    text = url.render_as_string(hide_password=False) if isinstance(url, URL) else url
    return PASSWORD.sub(lambda found: f"{found[2]}=***" if found[2] else f"{found[1]}:***@", text)
