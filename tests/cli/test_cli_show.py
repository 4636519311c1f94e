"""`kill-audit show` on recorded journals: what convinces a person who doubts one line of the report."""

import shlex
import shutil
import subprocess

import pytest

from command_line import Command, Host, run_log, scene

DEPLOY = [*scene("deploy"), *run_log("deploy")]
LATE = "313e7c7e-0080-490d-a342-c12cd1e36b88"


def kill_of(kill_audit: Command, words: list[str], task_id: str) -> str:
    """The id of the kill of a task."""
    document = kill_audit("report", "-o", "json", *words).json
    (found,) = (kill["id"] for kill in document["kills"] if kill["task"]["id"] == task_id)
    return str(found)


def section(text: str, head: str) -> str:
    """One section of what `show` prints."""
    (found,) = (part for part in text.split("\n\n") if part.startswith(head))
    return found


def test_each_claim_stands_with_its_own_reasons(kill_audit: Command) -> None:
    """Why it died, what became of it, and how it was named: each with what it rests on, and with nothing else's."""
    out = kill_audit("show", *DEPLOY, kill_of(kill_audit, DEPLOY, LATE)).out
    why = section(out, "Why: unit-stop (high confidence)")
    assert "- the unit was being restarted" in why
    assert "acknowledged" not in why
    fate = section(out, "What became of it: lost")
    assert "- the worker reported the loss and acknowledged the message" in fate
    assert "run log: missing." in fate
    naming = section(out, "How it was named: job (medium confidence)")
    assert "it was killed as well, and is a kill of its own" in naming


def test_what_was_looked_for_in_vain_is_said(kill_audit: Command) -> None:
    """The causes that come before the one that holds are named as looked for and not found."""
    whole = kill_audit("show", "-o", "json", *DEPLOY, kill_of(kill_audit, DEPLOY, LATE)).json
    assert whole["ruled_out"] == [
        *("host-reboot", "watchdog", "oom-kernel", "oom-systemd", "hard-time-limit", "manual-signal"),
        *("cold-shutdown", "stop-timeout", "crash", "exit"),
    ]
    out = kill_audit("show", *DEPLOY, whole["kill"]["id"]).out
    said = " ".join(section(out, "Why:").split())
    assert "looked for before that, and not found: the host went down, systemd's watchdog, out of memory" in said


def test_the_reasons_are_those_of_the_report(kill_audit: Command) -> None:
    """Told apart by what they are reasons for, they are the report's, none left out."""
    document = kill_audit("report", "-o", "json", *DEPLOY).json
    for kill in document["kills"]:
        reasons = kill_audit("show", "-o", "json", *DEPLOY, kill["id"]).json["reasons"]
        assert [one for name in ("cause", "task", "fate", "verdict") for one in reasons[name]] == kill["reasons"]


def test_lines_of_unit_manager_and_sudo_stand_in_order_of_time(kill_audit: Command) -> None:
    """Lines of the worker, of PID 1 and of sudo around the death, by time; those that prove it with their cursor."""
    whole = kill_audit("show", "-o", "json", *DEPLOY, kill_of(kill_audit, DEPLOY, LATE)).json
    times = [line["at"] for line in whole["lines"]]
    assert times == sorted(times)
    assert {"celery@a.service", "init.scope", "sudo"} <= {line["who"] for line in whole["lines"]}
    assert "celery@b.service" not in {line["who"] for line in whole["lines"]}
    shown = {line["cursor"] for line in whole["lines"]}
    assert {one["cursor"] for one in whole["kill"]["evidence"]} <= shown


def test_the_kernels_lines_are_shown_where_it_killed(kill_audit: Command) -> None:
    """An out-of-memory kill is shown by the kernel's own lines, and the host's number of the process."""
    words = scene("oom_child")
    (kill,) = kill_audit("report", "-o", "json", *words).json["kills"]
    out = kill_audit("show", *words, kill["id"]).out
    assert f"  host's pid {kill['host_pid']}\n" in out
    assert "* 11-30 12:03:45.939 kernel[-]: Memory cgroup out of memory: Killed process" in out


def test_a_kill_without_a_name_says_why(kill_audit: Command) -> None:
    """Where nothing names the task, show says so, why its row cannot be looked for, and how the fate stays open."""
    words = [*scene("quiet_logs"), *run_log("quiet_logs")]
    kill, *_ = kill_audit("report", "-o", "json", *words).json["kills"]
    out = kill_audit("show", *words, kill["id"]).out
    assert out.startswith(f"Kill {kill['id']}: a task without a name\n")
    assert "- the worker's log level hides which tasks it received" in section(out, "How it was named: none")
    assert "- the task could not be named, so its row cannot be looked for" in section(out, "What became of it")


def test_the_first_characters_of_an_id_are_enough(kill_audit: Command) -> None:
    """An id may be cut where it is still one kill's; more or fewer are refused with the ids they may mean."""
    assert kill_audit("show", *DEPLOY, "481f").out.startswith("Kill 481f56e245: ")
    said = kill_audit("show", *DEPLOY, "zz")
    assert (said.status, said.out) == (2, "")
    assert said.err.splitlines() == [
        "kill-audit: zz: no kill in this window has this id",
        "hint: ids are in `kill-audit report`; widen it with --since",
    ]


@pytest.mark.journal
def test_the_journalctl_command_shows_the_same_lines(host: Host, kill_audit: Command) -> None:
    """What it prints for journalctl, run as it stands, prints the lines of the unit and of PID 1 around the death."""
    if shutil.which("journalctl") is None:
        pytest.skip("there is no journalctl: apt-get install systemd")
    words = list(host.words)
    whole = kill_audit("show", "-o", "json", *words, kill_of(kill_audit, words, LATE)).json
    said = subprocess.run(shlex.split(whole["journalctl"]), check=True, capture_output=True, text=True).stdout
    proofs = [one["text"].splitlines()[0] for one in whole["kill"]["evidence"]]
    assert proofs
    assert [text for text in proofs if text not in said] == []


def test_a_form_that_is_none_is_refused(kill_audit: Command) -> None:
    """-o takes text and json."""
    said = kill_audit("show", *DEPLOY, "-o", "html", "481f")
    assert (said.status, said.err.splitlines()[-1]) == (2, "hint: formats: text, json")
