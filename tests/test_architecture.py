"""Who may import whom: the contracts of pyproject.toml hold, also for what is imported by name."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "src" / "kill_audit"


def test_the_import_contracts_hold() -> None:
    """Each room imports only what stands below it, and what judges does no I/O."""
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(lint, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def imports_by_name() -> Iterator[tuple[str, str]]:
    """Each room that calls `import_module` with a constant name, and the package that the name is of."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("import_module"):
                names = [name.value for name in call.args if isinstance(name, ast.Constant)]
                yield from ((path.relative_to(PACKAGE).parts[0], str(name).partition(".")[0]) for name in names)


def test_what_is_imported_by_name_keeps_the_contracts() -> None:
    """The import linter sees no `import_module`: only the journal's room loads systemd, only the run log's pyarrow."""
    assert set(imports_by_name()) == {("journal", "systemd"), ("runlog", "pyarrow")}


def test_the_extra_all_is_every_extra() -> None:
    """`pip install kill-audit[all]` brings every extra."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert extras.pop("all") == [f"kill-audit[{','.join(sorted(extras))}]"]
