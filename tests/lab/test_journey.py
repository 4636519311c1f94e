"""From the wheel to the mail: what a person does once, and what then happens every week."""

import mailbox
import time
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser

import pytest

from .deploys import SCENARIOS
from .root import AUDIT_VENV, CELERIES
from .runner import play
from .stage import Stage

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

KILL_AUDIT = f"{AUDIT_VENV}/bin/kill-audit"
RUN_LOG = "postgresql+psycopg://reader@/shop?host=/run/postgresql"
TO = "ops@example.org"
# Once a week is too seldom for a test, and the deaths of other tests are no part of it.
OFTEN = "[Timer]\nRandomizedDelaySec=0\nAccuracySec=1s\n"
SINCE_NOW = "[Service]\nEnvironment=KILL_AUDIT_MAIL_SINCE=@{} KILL_AUDIT_MAIL_SETTLE=0\n"


@pytest.fixture
def server(stage: Stage) -> str:
    """An SMTP server in the machine, which puts what it gets into a mailbox; its URL."""
    stage.run("install", "-d", "-o", "shop", "/var/lib/mailbox")
    serve = (f"{AUDIT_VENV}/bin/python", "-m", "aiosmtpd", "-n", "-l", "127.0.0.1:2525")
    into = ("-c", "aiosmtpd.handlers.Mailbox", "/var/lib/mailbox/ops")
    stage.run("systemd-run", "--quiet", "--unit=mail-server", "--uid=shop", *serve, *into)
    return "smtp+insecure://127.0.0.1:2525"


@pytest.fixture
def reader(stage: Stage) -> str:
    """A database user who may only read, and its password's file."""
    rules = stage.container.root / "etc/postgresql/15/main/pg_hba.conf"
    rules.write_text(f"local shop reader scram-sha-256\n{rules.read_text()}")
    role = "create role reader login password 'read only'; grant pg_read_all_data to reader; select pg_reload_conf()"
    stage.run("runuser", "-u", "postgres", "--", "psql", "-q", "-d", "shop", "-c", role)
    stage.write("/etc/kill-audit/run-log.password", "read only\n")
    stage.run("chmod", "600", "/etc/kill-audit/run-log.password")
    return "/etc/kill-audit/run-log.password"


def test_the_timer_mails_the_truth(stage: Stage, server: str, reader: str) -> None:
    """Installed, checked and scheduled, the hardened service mails each killed run that has no row."""
    [deploy] = [scenario for scenario in SCENARIOS if scenario.name == "deploy"]
    from_now = SINCE_NOW.format(int(time.time()))
    for unit, text in (("kill-audit-mail.timer", OFTEN), ("kill-audit-mail.service", from_now)):
        stage.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
    with play(stage, CELERIES[0], deploy) as truth:
        log = ("--run-log", RUN_LOG, "--run-log-table", "run_log_end")
        stage.run("env", "KILL_AUDIT_RUN_LOG_PASSWORD=read only", KILL_AUDIT, "doctor", *log, check=False)
        where = ("--to", TO, "--from", "kill-audit@web1.example.org", "--smtp", server)
        install = (KILL_AUDIT, "schedule", "install", "--weekly", "*:*:0/20", *where, *log)
        stage.run(*install, "--run-log-password-file", reader)
        stage.wait("a mail", lambda: bool(mails(stage)), 120)
        stage.run(KILL_AUDIT, "schedule", "remove")
    mail = mails(stage)[0]
    body = mail.get_body(("plain",))
    assert isinstance(body, EmailMessage)
    missing = {kill.run.id for kill in truth.kills if kill.fate == "gone"}
    assert mail["To"] == TO
    assert f"{len(truth.kills)} killed, {len(missing)} unrecorded" in mail["Subject"]
    said = body.get_content()
    assert {task for task in missing if task in said} == missing


def mails(stage: Stage) -> list[EmailMessage]:
    """Return what has come into the mailbox so far."""
    folder = stage.container.root / "var/lib/mailbox/ops"
    if not folder.exists():
        return []
    parser = BytesParser(EmailMessage, policy=policy.default)
    box = mailbox.Maildir(folder)
    return [parser.parsebytes(box.get_bytes(key)) for key in box.keys()]  # noqa: SIM118 -- iterating gives messages
