"""One boot of a machine out of the journals of many, as `journalctl -b` chooses it."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

from kill_audit.entry import Batch, Problem, Question, Source
from kill_audit.errors import SourceError, UsageError

_FORM: Final = re.compile(r"(?P<id>[0-9a-f]{32})?(?P<offset>[+-]?\d+)?")
_LISTED: Final = re.compile(r"^ *-?\d+ (?P<id>[0-9a-f]{32})\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSource:
    """The entries of one boot in another source."""

    source: Source
    boot_id: str

    @property
    def name(self) -> str:
        """The other source's name."""
        return self.source.name

    @property
    def fragile(self) -> bool:
        """Whether reading the other source may end the process."""
        return bool(getattr(self.source, "fragile", True))

    def described(self) -> str:
        """Say what the other source holds, and which boot of it is read."""
        return f"{getattr(self.source, 'described', str)()}, boot {self.boot_id}"

    def batches(self, question: Question) -> Iterator[Batch | Problem]:
        """Yield the boot's entries, and the other source's problems.

        Raises:
            SourceError: the other source cannot be opened.
        """
        for found in self.source.batches(question):
            if isinstance(found, Problem):
                yield found
            elif len(batch := _of_boot(found, self.boot_id)):
                yield batch


def _of_boot(batch: Batch, boot_id: str) -> Batch:
    wanted = [origin.boot_id == boot_id for origin in batch.origins]
    if all(wanted):
        return batch
    chosen = [wanted[place] for place in batch.origin]

    def rows(column: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(compress(column, chosen))

    return Batch(
        realtime=rows(batch.realtime),
        monotonic=rows(batch.monotonic),
        pid=rows(batch.pid),
        origin=rows(batch.origin),
        origins=batch.origins,
        message=rows(batch.message),
        cursor=rows(batch.cursor),
        fields=rows(batch.fields),
    )


def in_boot(sources: Sequence[Source], boot: str, *, where: Sequence[str] = ()) -> tuple[Source, ...]:
    """Restrict sources to one boot.

    Args:
        sources: what to restrict.
        boot: as for `journalctl -b`: `0` the last, `-1` the one before it, `1` the first, a boot's ID, an ID with an
            offset; `all` means no restriction.
        where: the options of journalctl that name the same journals (`--directory DIR`, `--root DIR`, `--merge`), to
            count boots in; an ID without an offset needs none of it.

    Raises:
        UsageError: `boot` is none of these forms, or there are not so many boots.
        SourceError: journalctl cannot be run, or cannot list the boots.
    """
    if boot == "all":
        return tuple(sources)
    match = _FORM.fullmatch(boot.replace("-", "") if _is_uuid(boot) else boot)
    if match is None:
        raise UsageError(
            f"-b {boot}: no boot", hint="give 0, -1, a boot ID, or `all`; list them: journalctl --list-boots"
        )
    boot_id = match["id"] if match["id"] and not match["offset"] else _counted(match["id"], match["offset"], where)
    return tuple(BootSource(source=source, boot_id=boot_id) for source in sources)


def _is_uuid(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def _counted(boot_id: str | None, offset: str | None, where: Sequence[str]) -> str:
    boots = _listed(where)
    steps = int(offset or 0)
    if boot_id is not None:
        place = boots.index(boot_id) + steps if boot_id in boots else -1
    else:
        place = steps - 1 if steps > 0 else len(boots) - 1 + steps
    if not 0 <= place < len(boots):
        raise UsageError(
            f"-b {boot_id or ''}{offset or ''}: there is no such boot among the {len(boots)} in the journal",
            hint=f"list them: journalctl --list-boots {' '.join(where)}".rstrip(),
        )
    return boots[place]


def _listed(where: Sequence[str]) -> list[str]:
    """List the boot IDs in the journal, oldest first."""
    program = shutil.which("journalctl")
    if program is None:
        raise SourceError("journalctl, which counts boots, is not installed", hint="give the boot's ID of 32 digits")
    command = [program, "--list-boots", "--no-pager", "--quiet", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- found on the PATH
    boots = [match["id"] for match in _LISTED.finditer(done.stdout)]
    if not boots:
        raise SourceError(
            f"journalctl lists no boots: {done.stderr.strip() or 'the journal is empty'}",
            hint=f"try it: {' '.join(command)}",
        )
    return boots
