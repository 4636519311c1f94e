"""The clock of a database's server."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from kill_audit.errors import RunLogError
from kill_audit.runlog.clock import clock_skew_s


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_server_on_this_host_has_this_host_s_clock(server: str, request: pytest.FixtureRequest) -> None:
    """The difference is measured against the middle of the question, so that it is next to nothing."""
    url: sa.URL = request.getfixturevalue(server)
    skew = clock_skew_s(url.render_as_string(hide_password=False), environ={})
    assert skew is not None
    assert abs(skew) < 60


def test_files_have_no_clock(tmp_path: Path) -> None:
    """SQLite runs in this process, and a CSV file does not run at all."""
    url = f"sqlite:///{tmp_path}/x.db"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (a INTEGER)"))
    engine.dispose()
    (tmp_path / "x.csv").write_text("task_id\n")
    assert [clock_skew_s(place, environ={}) for place in (url, str(tmp_path / "x.csv"))] == [None, None]


def test_a_server_that_is_not_there_is_an_error_of_one_line() -> None:
    """As for every question to a database."""
    with pytest.raises(RunLogError):
        clock_skew_s("postgresql://nobody@127.0.0.1:1/x", environ={})
