"""Files that are replaced as a whole, so that nobody ever reads half of one."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file, or make it. A link stays a link, and the file keeps its permissions.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    whole = path.resolve()
    part = whole.with_name(f".{whole.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        if whole.exists():
            part.chmod(whole.stat().st_mode & 0o7777)
        part.replace(whole)
    except OSError:
        part.unlink(missing_ok=True)
        raise
