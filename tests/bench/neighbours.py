"""What else runs on a host: dozens of services, cron and logins, the kernel and systemd, some of it long or binary."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Final

from .journald import Entry, Host, field_bytes

_SECOND: Final = 1_000_000
_SERVICES: Final = 40
_GAP: Final = 40 * _SECOND  # a power failure's: nothing is written
_PATHS: Final = ("/cart", "/checkout", "/search", "/product/red-shoes", "/api/v2/orders", "/static/app.js")


def neighbours(host: Host, seed: str, per_second: float, long: float, span: tuple[int, int]) -> Iterator[Entry]:
    """Yield entries in order: about `per_second` of them, `long` of them with texts of more than 512 bytes."""
    dice = random.Random(f"{seed} neighbours")  # noqa: S311 -- it plays dice
    services = [_Service(host, number, dice) for number in range(_SERVICES)]
    at, until = span
    while (at := at + int(dice.expovariate(per_second) * _SECOND)) < until:
        if any(boot.since - _GAP <= at < boot.since for boot in host.boots[1:]):
            continue
        yield dice.choices(_KINDS, _WEIGHTS)[0](host, services, dice, at, long)


class _Service:
    """A daemon with a pid and a name of its own."""

    def __init__(self, host: Host, number: int, dice: random.Random) -> None:
        self.comm = f"svc{number:02}"
        self.unit = f"{self.comm}.service"
        self.head = host.stdout(
            self.unit, next(host.pids), self.comm, f"{dice.getrandbits(128):032x}", f"{dice.getrandbits(128):032x}"
        )


_Kind = Callable[[Host, list[_Service], random.Random, int, float], Entry]


def _service_line(_host: Host, services: list[_Service], dice: random.Random, at: int, long: float) -> Entry:
    service, number = dice.choice(services), dice.randrange(10**9)
    path = dice.choice(_PATHS)
    chance = dice.random()
    if chance < long:
        lines = [{"sku": f"A-{dice.randrange(10**6)}", "price": number % 997, "path": path} for _ in range(16)]
        text = json.dumps({"level": "info", "request": number, "lines": lines})
    elif chance < long + 0.02:
        where = f'  File "app.py", line {number % 400}'
        text = f"worker {number} failed\nTraceback (most recent call last):\n{where}\nKeyError"
    elif chance < long + 0.3:
        text = f"connection from 10.0.{number % 250}.7 accepted"
    else:
        text = f'10.0.3.{number % 250} "GET {path}?page={number} HTTP/1.1" 200 {number % 50_000} {number % 3000} ms'
    fields = field_bytes(b"MESSAGE", text.encode())
    if dice.random() < 0.01:
        fields += field_bytes(b"PAYLOAD", dice.randbytes(24))
    return Entry(at, service.head, fields)


def _cron_line(host: Host, _services: list[_Service], dice: random.Random, at: int, _long: float) -> Entry:
    head = host.service("cron.service", next(host.pids), "cron", "/usr/sbin/cron", "5d41402abc4b2a76b9719d911017c592")
    text = f"(www-data) CMD (/srv/shop/bin/sweep --shard {dice.randrange(64)})"
    return Entry(at, head, b"_TRANSPORT=syslog\nSYSLOG_IDENTIFIER=CRON\n" + field_bytes(b"MESSAGE", text.encode()))


def _login_line(host: Host, _services: list[_Service], dice: random.Random, at: int, _long: float) -> Entry:
    head = host.service("ssh.service", next(host.pids), "sshd", "/usr/sbin/sshd", "7d793037a0760186574b0282f2f435e7")
    text = f"Invalid user admin from 198.51.100.{dice.randrange(250)} port {dice.randrange(1024, 65536)}"
    return Entry(at, head, b"_TRANSPORT=syslog\nSYSLOG_IDENTIFIER=sshd\n" + field_bytes(b"MESSAGE", text.encode()))


def _kernel_line(host: Host, _services: list[_Service], dice: random.Random, at: int, _long: float) -> Entry:
    address = f"198.51.100.{dice.randrange(250)}"
    return host.kernel(at, f"[UFW BLOCK] IN=eth0 OUT= SRC={address} DST=203.0.113.9 LEN=40 ID={dice.randrange(65536)}")


def _manager_line(host: Host, _services: list[_Service], dice: random.Random, at: int, _long: float) -> Entry:
    unit = dice.choice(("logrotate.service", "apt-daily.service", "backup@db.service", "fstrim.service"))
    text = f"{unit}: Deactivated successfully."
    return host.manager(at, unit, text, f"{dice.getrandbits(128):032x}", MESSAGE_ID="7ad2d189f7e94e70a38c781354912448")


_KINDS: Final[tuple[_Kind, ...]] = (_service_line, _cron_line, _login_line, _kernel_line, _manager_line)
_WEIGHTS: Final = (78, 8, 5, 5, 4)
