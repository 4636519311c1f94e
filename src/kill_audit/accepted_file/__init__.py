"""The file of accepted findings: found, read with every mistake at once, and written so that a review reads well.

Rules of this room: the file belongs to people. What they wrote stays as it is, comments and order and blanks too; an
entry is a `[[accepted]]` table of TOML, and what is written goes to the file's end, or over the values of that entry.
Which kills an entry accepts is decided in `acceptance`.
"""

from kill_audit.accepted_file.failures import AcceptedFileError
from kill_audit.accepted_file.place import NAME, place
from kill_audit.accepted_file.reading import read
from kill_audit.accepted_file.writing import Change, put, remove

__all__ = ["NAME", "AcceptedFileError", "Change", "place", "put", "read", "remove"]
