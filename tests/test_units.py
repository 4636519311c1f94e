"""Units: what systemctl and unit files say, and what a Celery command line means."""

import math
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import EVERYTHING, NOON, Journal, moment
from kill_audit import classify, timeline
from kill_audit.audit import partials_of
from kill_audit.document import Advice, UnitAdvice
from kill_audit.entry import Source
from kill_audit.units import (
    SeenUnit,
    UnitSettings,
    WorkerCommand,
    configuration,
    informed,
    machine_id,
    seen_units,
    settings_of,
    worker_command,
)
from kill_audit.units.settings import PROPERTIES

DATA = Path(__file__).parent / "data" / "systemctl"
ROOT = DATA / "root"
UNITS = ("celery@a.service", "celery@b.service", "celery.service", "nosuch.service")


def shown(version: int) -> dict[str, UnitSettings]:
    """The settings by what a real systemctl printed."""
    text = (DATA / f"show-{version}.txt").read_text()
    return dict(settings_of(UNITS, run=lambda words: subprocess.CompletedProcess(words, 0, text, "")).settings)


# -- systemctl show -----------------------------------------------------------


@pytest.mark.parametrize("version", [252, 257])
def test_systemctl_show_gives_the_settings_of_each_unit(version: int) -> None:
    """What systemd 252 and 257 print is read: kill settings, time-out, memory, and the worker's command line."""
    assert shown(version)["celery@a.service"] == UnitSettings(
        unit="celery@a.service",
        type="exec",
        kill_mode="mixed",
        kill_signal=15,
        restart_kill_signal=15,
        final_kill_signal=9,
        send_sigkill=True,
        timeout_stop="1h 30min",
        oom_policy="stop",
        memory_max=512 << 20,
        restart="on-failure",
        standard_output="journal",
        standard_error="inherit",
        log_rate_limit_burst=0,
        commands=(
            WorkerCommand(
                app="shop.celery:app",
                queues=("mails", "reports"),
                concurrency=4,
                pool="prefork",
                nodes=("a@%h",),
                log_level="INFO",
            ),
        ),
    )


@pytest.mark.parametrize("version", [252, 257])
def test_a_drop_in_of_one_instance_shows_in_its_settings_alone(version: int) -> None:
    """celery@b.service overrides its template: log file in a shell's words, infinite time-out, a namespace."""
    found = shown(version)["celery@b.service"]
    assert (found.kill_mode, found.oom_policy, found.timeout_stop_s, found.memory_max) == (
        "control-group",
        "continue",
        math.inf,
        None,
    )
    assert found.log_namespace == "shop"
    assert found.commands == (
        WorkerCommand(app="shop", concurrency=2, log_level="WARNING", log_file="/var/log/celery/%n%I.log"),
    )
    assert found.log_files == ("/var/log/celery/*.log",)


def test_a_unit_that_systemd_does_not_know_is_left_out_and_named() -> None:
    """`systemctl show` prints defaults and exits 0 for a unit without a file; LoadState tells."""
    text = (DATA / "show-252.txt").read_text()
    found = settings_of(UNITS, run=lambda words: subprocess.CompletedProcess(words, 0, text, ""))
    assert sorted(found.settings) == ["celery.service", "celery@a.service", "celery@b.service"]
    assert found.why_not == "not known to systemd: nosuch.service"


def test_environment_files_that_cannot_be_read_leave_what_the_words_show() -> None:
    """The documented unit of `celery multi` takes all from a file; without it, it still logs to files."""
    (command,) = shown(252)["celery.service"].commands
    assert command == WorkerCommand(log_file="${CELERYD_LOG_FILE}", multi=True, detached=True)
    assert (command.logs_to_files, command.log_glob) == (True, None)


def test_only_what_matters_is_asked_for_and_names_cannot_be_options() -> None:
    """It gets the properties, a double hyphen, and each name once, in order."""
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "", "")

    settings_of(["b.service", "-odd.service", "b.service", ""], user=True, run=run)
    assert asked == [
        ["--user", "show", "--no-pager", "--property", ",".join(PROPERTIES), "--", "-odd.service", "b.service"]
    ]


def test_many_units_are_asked_for_in_several_calls() -> None:
    """A command line has a limit, so that a thousand names go in pieces and all are answered."""
    sizes = []

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        names = words[words.index("--") + 1 :]
        sizes.append(len(names))
        text = "\n".join(f"Id={name}\nLoadState=loaded\n" for name in names)
        return subprocess.CompletedProcess(words, 0, text, "")

    found = settings_of([f"u{number}.service" for number in range(450)], run=run)
    assert (sizes, len(found.settings), found.why_not) == ([200, 200, 50], 450, None)


@pytest.mark.parametrize(
    ("outcome", "why_not"),
    [
        (FileNotFoundError(), "systemctl is not installed"),
        (subprocess.TimeoutExpired("systemctl", 20), "systemctl gave no answer in 20 s"),
        (
            subprocess.CompletedProcess([], 1, "", "System has not been booted with systemd.\nFailed to connect\n"),
            "System has not been booted with systemd.",
        ),
        (subprocess.CompletedProcess([], 3, "", ""), "systemctl exited with status 3"),
    ],
)
def test_without_systemd_there_are_no_settings_and_a_reason(
    outcome: Exception | subprocess.CompletedProcess[str], why_not: str
) -> None:
    """No systemctl, one that hangs, or one that finds no service manager: nothing, and why."""

    def run(_words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    found = settings_of(["celery.service"], run=run)
    assert (dict(found.settings), found.why_not) == ({}, why_not)


def test_the_real_systemctl_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program `systemctl` of PATH is asked, without colours and in English."""
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\nprintf "Id=x.service\\nLoadState=loaded\\nKillMode=$LC_ALL$SYSTEMD_COLORS\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert settings_of(["x.service"]).settings["x.service"].kill_mode == "C.UTF-80"


# -- unit files ---------------------------------------------------------------


@pytest.mark.parametrize("version", [252, 257])
@pytest.mark.parametrize("unit", ["celery@a.service", "celery@b.service"])
def test_unit_files_say_the_same_as_the_service_manager(unit: str, version: int) -> None:
    """The files with their drop-ins, read without systemd, give what a real systemd made of the same files."""
    assert settings_of([unit], root=str(ROOT)).settings[unit] == shown(version)[unit]


def test_the_documented_unit_of_celery_multi_is_understood_with_its_environment_file() -> None:
    """Celery's own unit for `celery multi` names its nodes, options and log files in /etc/conf.d/celery."""
    found = settings_of(["celery.service"], root=str(ROOT)).settings["celery.service"]
    assert found.commands == (
        WorkerCommand(
            app="shop",
            concurrency=8,
            nodes=("w1", "w2"),
            log_level="INFO",
            log_file="/var/log/celery/%n%I.log",
            multi=True,
            detached=True,
        ),
    )
    assert (found.log_files, found.logs_to_files) == (("/var/log/celery/*.log",), True)
    assert replace(found, commands=()) == replace(shown(252)["celery.service"], commands=())


def write(root: Path, path: str, text: str) -> None:
    """Write a file below a root."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def kill_mode(root: Path, unit: str = "w.service") -> str | None:
    """The KillMode of a unit by its files."""
    found = settings_of([unit], root=str(root)).settings.get(unit)
    return None if found is None else found.kill_mode


def test_a_unit_file_in_etc_hides_one_in_usr_and_one_in_run_lies_between(tmp_path: Path) -> None:
    """systemd.unit(5): /etc goes before /run, /run before /usr/lib; a file of the instance before its template."""
    write(tmp_path, "usr/lib/systemd/system/w.service", "[Service]\nKillMode=none\n")
    assert kill_mode(tmp_path) == "none"
    write(tmp_path, "run/systemd/system/w.service", "[Service]\nKillMode=process\n")
    assert kill_mode(tmp_path) == "process"
    write(tmp_path, "etc/systemd/system/w.service", "[Service]\nKillMode=mixed\n")
    assert kill_mode(tmp_path) == "mixed"
    write(tmp_path, "etc/systemd/system/w@.service", "[Service]\nKillMode=mixed\n")
    write(tmp_path, "usr/lib/systemd/system/w@one.service", "[Service]\nKillMode=process\n")
    assert (kill_mode(tmp_path, "w@one.service"), kill_mode(tmp_path, "w@two.service")) == ("process", "mixed")


def test_drop_ins_count_in_the_order_of_their_names_wherever_they_lie(tmp_path: Path) -> None:
    """The last name wins; of files of one name that in the earlier folder, and an instance's before its template's."""
    write(tmp_path, "etc/systemd/system/w@.service", "[Service]\nKillMode=none\n")
    write(tmp_path, "usr/lib/systemd/system/w@.service.d/90.conf", "[Service]\nKillMode=process\n")
    write(tmp_path, "etc/systemd/system/w@.service.d/10.conf", "[Service]\nKillMode=mixed\n")
    assert kill_mode(tmp_path, "w@a.service") == "process"
    write(tmp_path, "etc/systemd/system/w@.service.d/90.conf", "[Service]\nTimeoutStopSec=5\n")
    assert kill_mode(tmp_path, "w@a.service") == "mixed"
    write(tmp_path, "etc/systemd/system/w@a.service.d/90.conf", "[Service]\nKillMode=control-group\n")
    assert (kill_mode(tmp_path, "w@a.service"), kill_mode(tmp_path, "w@b.service")) == ("control-group", "mixed")
    write(tmp_path, "etc/systemd/system/service.d/95.conf", "[Service]\nKillMode=none\n")
    assert kill_mode(tmp_path, "w@b.service") == "none"
    write(tmp_path, "etc/systemd/system/x-y-z.service", "[Unit]\n")
    write(tmp_path, "etc/systemd/system/x-.service.d/99.conf", "[Service]\nKillMode=mixed\n")
    assert kill_mode(tmp_path, "x-y-z.service") == "mixed"


def test_a_masked_unit_and_one_without_a_file_have_no_settings(tmp_path: Path) -> None:
    """A link to /dev/null masks a unit, and so does an empty file."""
    write(tmp_path, "usr/lib/systemd/system/w.service", "[Service]\nKillMode=none\n")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/w.service").symlink_to("/dev/null")
    write(tmp_path, "etc/systemd/system/u.service", "")
    found = settings_of(["w.service", "v.service", "u.service"], root=str(tmp_path))
    assert (dict(found.settings), found.why_not) == ({}, "no unit file: u.service, v.service, w.service")


def test_links_are_followed_within_the_root(tmp_path: Path) -> None:
    """An absolute link of a file system that is mounted elsewhere leads to a file of that system."""
    write(tmp_path, "opt/shop/w.service", "[Service]\nKillMode=process\n")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/w.service").symlink_to("/opt/shop/w.service")
    (tmp_path / "etc/systemd/system/v.service").symlink_to("w.service")
    (tmp_path / "etc/systemd/system/loop.service").symlink_to("loop.service")
    assert [kill_mode(tmp_path, f"{name}.service") for name in ("w", "v", "loop")] == ["process", "process", None]


def test_what_a_unit_file_leaves_out_has_the_manager_s_default(tmp_path: Path) -> None:
    """system.conf and its drop-ins give the time-out and the OOM policy; else they are systemd's own."""
    write(tmp_path, "etc/systemd/system/w.service", "[Service]\nExecStart=/bin/true\n")
    plain = settings_of(["w.service"], root=str(tmp_path)).settings["w.service"]
    assert (plain.type, plain.kill_mode, plain.timeout_stop, plain.oom_policy, plain.kill_signal) == (
        "simple",
        "control-group",
        "1min 30s",
        "stop",
        15,
    )
    write(tmp_path, "etc/systemd/system.conf", "[Manager]\nDefaultTimeoutStopSec=45s\n")
    write(tmp_path, "etc/systemd/system.conf.d/oom.conf", "[Manager]\nDefaultOOMPolicy=continue\n")
    told = settings_of(["w.service"], root=str(tmp_path)).settings["w.service"]
    assert (told.timeout_stop, told.timeout_stop_s, told.oom_policy) == ("45s", 45.0, "continue")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("TimeoutSec=0", {"timeout_stop": "infinity"}),
        ("TimeoutStopSec=90\nTimeoutStopSec=2min 5s", {"timeout_stop": "2min 5s"}),
        ("TimeoutStopSec=5\nTimeoutStopSec=", {"timeout_stop": "1min 30s"}),
        ("KillSignal=SIGQUIT", {"kill_signal": 3, "restart_kill_signal": 3}),
        ("KillSignal=QUIT\nRestartKillSignal=1", {"kill_signal": 3, "restart_kill_signal": 1}),
        ("SendSIGKILL=no", {"send_sigkill": False}),
        ("MemoryMax=1.5G", {"memory_max": 3 << 29}),
        ("MemoryMax=50%", {"memory_max": None}),
        ("Delegate=yes", {"oom_policy": "continue"}),
        ("LogLevelMax=notice", {"log_level_max": 5}),
        ("Environment=REMAP_SIGTERM=SIGQUIT", {"remap_sigterm": "SIGQUIT"}),
        ("# KillMode=none\n; KillMode=none\nKillMode=mi\\\n# between\nxed", {"kill_mode": "mi xed"}),
    ],
)
def test_settings_are_spelled_in_every_way_that_systemd_takes(
    lines: str, expected: dict[str, object], tmp_path: Path
) -> None:
    """Units of time and size, names and numbers of signals, empty values that take back, lines that go on."""
    write(tmp_path, "etc/systemd/system/w.service", f"[Unit]\nKillMode=x\n[Service]\n{lines}\n[Install]\nKillMode=y\n")
    found = settings_of(["w.service"], root=str(tmp_path)).settings["w.service"]
    assert {name: getattr(found, name) for name in expected} == expected


def test_configuration_reads_a_file_and_its_drop_ins(tmp_path: Path) -> None:
    """journald.conf of /etc hides that of /usr/lib; drop-ins come on top; a missing one says nothing."""
    assert configuration("journald.conf", "Journal", tmp_path) == {}
    write(tmp_path, "usr/lib/systemd/journald.conf", "[Journal]\nStorage=volatile\n")
    write(tmp_path, "etc/systemd/journald.conf", "[Journal]\n#Storage=none\nSystemMaxUse=1G\n")
    write(tmp_path, "run/systemd/journald.conf.d/a.conf", "[Journal]\nSystemMaxUse=2G\n")
    assert configuration("journald.conf", "Journal", tmp_path) == {"SystemMaxUse": ("2G",)}


def test_machine_id_of_a_root(tmp_path: Path) -> None:
    """The machine id is the content of etc/machine-id; None where there is none."""
    assert machine_id(str(tmp_path)) is None
    write(tmp_path, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    assert machine_id(str(tmp_path)) == "0123456789abcdef0123456789abcdef"


# -- command lines ------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("celery -A shop worker", WorkerCommand(app="shop")),
        (
            "/v/bin/celery --app=shop worker --loglevel=debug -c8 -Qa,b -P gevent -n w@%h",
            WorkerCommand(
                app="shop", log_level="DEBUG", concurrency=8, queues=("a", "b"), pool="gevent", nodes=("w@%h",)
            ),
        ),
        ("python3 -m celery -A shop worker -linfo", WorkerCommand(app="shop", log_level="INFO")),
        ("celery worker -A celery --autoscale=10,3", WorkerCommand(app="celery", concurrency=10)),
        ("poetry run celery worker -E -B --without-gossip", WorkerCommand()),
        ("python manage.py celery worker -f /l/a.log", WorkerCommand(log_file="/l/a.log")),
        ("sh -c 'cd /srv/celery && exec celery -A shop worker'", WorkerCommand(app="shop")),
        ("bash -c 'celery -A $APP worker -c ${N}'", WorkerCommand(app="mine", concurrency=3)),
        ("celery worker -D --logfile=%n.log", WorkerCommand(log_file="%n.log", detached=True)),
        (
            "celery multi start 3 -A shop -c:1 4 -c 5 --logfile=/l/%n%I.log",
            WorkerCommand(app="shop", concurrency=5, log_file="/l/%n%I.log", multi=True, detached=True),
        ),
        ("celery multi stopwait w1 --logfile=/l/%n.log", None),
        ("celery -A shop beat", None),
        ("celery -A worker beat", None),
        ("/usr/bin/python -m http.server", None),
        ("gunicorn shop:worker", None),
        ("", None),
    ],
)
def test_a_worker_s_command_line_is_understood(line: str, expected: WorkerCommand | None) -> None:
    """Every way to start a worker, and programs that are none."""
    assert worker_command(shlex.split(line), {"APP": "mine", "N": "3"}) == expected


@pytest.mark.parametrize(
    ("log_file", "to_files", "glob"),
    [
        (None, False, None),
        ("/dev/stderr", False, None),
        ("/var/log/celery/%n%I.log", True, "/var/log/celery/*.log"),
        ("/l/worker.log", True, "/l/worker.log"),
        ("${LOG}", True, None),
    ],
)
def test_a_log_file_s_pattern_has_a_star_for_celery_s_own_marks(
    log_file: str | None, to_files: bool, glob: str | None
) -> None:
    """`%n` and `%I` stand for node and process; the standard streams are the journal."""
    command = WorkerCommand(log_file=log_file)
    assert (command.logs_to_files, command.log_glob) == (to_files, glob)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=12))
def test_no_command_line_is_refused(words: list[str]) -> None:
    """Whatever stands in ExecStart, it is a worker's command line or none."""
    assert isinstance(worker_command(["celery", *words, "worker"]), WorkerCommand | None)


# -- what the journal shows ---------------------------------------------------


def seen(*sources: Source) -> tuple[SeenUnit, ...]:
    """The worker units that sources hold."""
    history = timeline.join(partials_of(sources, EVERYTHING, lambda function, items: [function(one) for one in items]))
    kills = classify.judge(history.deaths, classify.scene_of(history))
    return seen_units(history, kills, EVERYTHING)


def test_worker_units_are_found_by_their_own_lines() -> None:
    """A unit is listed with its nodes, version, pool, lives, receipts and kills; nginx is none."""
    journal = Journal("web1")
    unit = journal.at(0).unit("celery@a.service", concurrency=2)
    journal.chatter()
    unit.received("t1", "t2")
    journal.at(5)
    unit.dies(1, job=0)
    journal.at(60)
    unit.starts(200)
    journal.at(70).unit("celery@b.service", main=900, version="5.2.7", pool="solo", concurrency=1)
    found = seen(journal.source())
    assert [(one.unit, one.host, one.nodes, one.versions, one.pools, one.concurrency) for one in found] == [
        ("celery@a.service", "web1", ("a@web1",), ("5.7.0",), ("prefork",), 2),
        ("celery@b.service", "web1", ("b@web1",), ("5.2.7",), ("solo",), 1),
    ]
    assert [(one.lives, one.receipts, one.kills >= 1, one.task_lines) for one in found] == [
        (2, 2, True, "visible"),
        (1, 0, False, "visible"),
    ]
    assert found[0].first == NOON
    assert found[1].last is not None
    assert moment(70) <= found[1].last < moment(71)


def test_a_worker_whose_log_level_hides_receipts_is_listed_as_hidden() -> None:
    """At level WARNING only the banner is printed."""
    journal = Journal()
    unit = journal.unit(starts=False)
    unit.bare(" -------------- a@web1 v5.7.0 (codename)")
    unit.bare("- *** --- * --- .> concurrency: 2 (prefork)")
    (found,) = seen(journal.source())
    assert (found.unit, found.task_lines, found.log_file) == ("celery@a.service", "hidden", False)


def test_a_unit_of_celery_multi_is_listed_without_a_life() -> None:
    """The journal has only what `celery multi` prints; the workers' lines are in files."""
    journal = Journal()
    unit = journal.unit("celery.service", starts=False)
    unit.bare("celery multi v5.7.0 (collider)")
    (found,) = seen(journal.source())
    assert (found.unit, found.host, found.lives, found.log_file) == ("celery.service", "web1", 0, True)
    assert (found.first, found.last) == (None, None)


# -- advice -------------------------------------------------------------------


def advice(setting: str, better: str) -> UnitAdvice:
    """Advice about a setting of celery@a.service."""
    return UnitAdvice(unit="celery@a.service", problem="p", setting=setting, now=None, better=better, why="w")


def test_advice_gets_the_present_values_and_loses_what_is_done() -> None:
    """`now` is what systemd is told; a setting that is as advised needs no advice; unknown units stay as they are."""
    settings = UnitSettings(unit="celery@a.service", kill_mode="mixed", timeout_stop="1min 30s", oom_policy="stop")
    given_ = Advice(
        drain=(),
        units=(advice("KillMode", "mixed"), advice("TimeoutStopSec", "longer"), advice("OOMPolicy", "continue")),
    )
    told = informed(given_, {"celery@a.service": settings})
    assert [(one.setting, one.now) for one in told.units] == [("TimeoutStopSec", "1min 30s"), ("OOMPolicy", "stop")]
    assert informed(given_, {}) == given_
