"""`json` and `ndjson`: the document's values as they are, for programs.

Both are the same for every view, and both are safe to look at: what has no glyph is spelt in JSON's own way.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from kill_audit.document import Document, encode
from kill_audit.render.printable import printable_json
from kill_audit.render.view import View

LISTS: Mapping[str, str] = MappingProxyType(
    {
        "deploys": "deploy",
        "incidents": "incident",
        "kills": "kill",
        "idle_deaths": "idle-death",
        "blind_deaths": "blind-death",
        "ghosts": "ghost",
        "duplicates": "duplicate",
        "offenders": "offender",
        "not_losses": "not-loss",
        "acceptances": "acceptance",
    }
)
"""The document's lists, and the value of `record` in the lines of each."""


def render(document: Document, view: View) -> str:
    """Write `json`, the whole document indented, or `ndjson`, one object a line."""
    if view.form == "json":
        return printable_json(encode(document).decode())
    lines = (msgspec.json.encode(record).decode() for record in records(document))
    return printable_json("\n".join(lines) + "\n")


def records(document: Document) -> Iterator[dict[str, Any]]:
    """Split the document into flat records: first what is said once (`report`), then each item of each list.

    Each has the key `record` before the keys that it has in the document, so that nothing is lost:
    `jq 'select(.record == "kill")'` gives the kills.
    """
    whole = msgspec.to_builtins(document)
    yield {"record": "report", **{key: value for key, value in whole.items() if key not in LISTS}}
    for key, record in LISTS.items():
        for item in whole[key]:
            yield {"record": record, **item}
