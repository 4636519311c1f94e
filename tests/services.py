"""A plugin of pytest that marks the tests which need a service."""

import pytest

SERVICES = frozenset({"postgres", "postgres_server", "mariadb", "mariadb_server", "browser"})
"""Fixtures that start a server or a browser; a test may also name one in a parameter."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a server or a browser, so that `make quick` can leave them out."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        named = {value for value in parameters.values() if isinstance(value, str)}
        if SERVICES & (named | set(getattr(item, "fixturenames", ()))):
            item.add_marker("service")
