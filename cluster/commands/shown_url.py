"""A ledger's address as it may be shown: in print, in a page, in the command that repeats a table."""

import re

PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^/]*@|(?<=[?&])(password|passfile|sslpassword)=[^&]*")


def shown_url(url: str) -> str:
    """The address with `***` for a password, wherever in it that stands."""
    return PASSWORD.sub(lambda found: f"{found[2]}=***" if found[2] else f"{found[1]}:***@", url)
