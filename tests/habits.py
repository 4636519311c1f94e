"""How all tests run: a plugin of pytest, since mypy takes two files named `conftest` for one module.

Property tests take the same examples each time and have no deadline, since machines are slow at times. A test that
starts a database server or a browser is marked, so that `make quick` can leave it out.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

SERVICES = frozenset({"postgres", "postgres_server", "mariadb", "mariadb_server", "browser"})
"""Fixtures that start a server or a browser; a test may also name one in a parameter."""

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def _own_cache() -> Iterator[None]:
    """Keep nothing of a test run in the cache of whoever runs it."""
    folder = os.environ["CACHE_DIRECTORY"] = tempfile.mkdtemp(prefix="kill-audit-cache-")
    yield
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a server or a browser."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        named = {value for value in parameters.values() if isinstance(value, str)}
        if SERVICES & (named | set(getattr(item, "fixturenames", ()))):
            item.add_marker("service")
