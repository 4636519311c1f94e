"""A program of the tests: count the entries of journal files, each read in a child, and name the problems.

Prints a JSON array of arrays: name, entries, codes of problems (or the reason why the child was lost).
"""

import json
import sys

from kill_audit import engine
from kill_audit.entry import Batch, Question, Source
from kill_audit.journal import open_sources

Outcome = tuple[int, list[str]]


def count(source: Source) -> Outcome:
    """Read a source to its end."""
    entries, codes = 0, []
    for found in source.batches(Question(since=0, until=0, read_since=0, read_until=1 << 62)):
        if isinstance(found, Batch):
            entries += len(found)
        else:
            codes.append(found.code)
    return entries, codes


def lost(source: Source, reason: str) -> Outcome:
    """Say what ended the child."""
    del source
    return 0, [reason]


def main(files: list[str]) -> None:
    """Count in all files."""
    sources = open_sources(files=files)
    results = engine.run(count, sources, workers=2, timeout=60, on_lost=lost)
    json.dump([(source.name, *result) for source, result in zip(sources, results, strict=True)], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
