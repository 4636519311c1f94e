"""The shop's other half: sends tasks to the queues and speaks to the workers, as the app's web side would.

usage: python -m shop.client send ORDERS    sends tasks, and prints their ids, one a line; ORDERS is JSON, as
                                            [{"task": "sleepy", "args": [5], "queue": "a", "countdown": 10}]
       python -m shop.client revoke ID...   revokes and terminates
       python -m shop.client waiting        prints the ids of the tasks whose messages the broker still has
       python -m shop.client shutdown       asks all workers to shut down
       python -m shop.client prepare        creates the run log's tables
"""

from __future__ import annotations

import json
import re
import sys

from . import app, run_log


def send(orders: str) -> None:
    """Send the tasks and print the id of each. All besides the name and the arguments is Celery's own option."""
    for order in json.loads(orders):
        name, args = "shop.tasks." + order.pop("task"), order.pop("args", [])
        print(app.send_task(name, args=args, **order).id)


def waiting() -> list[str]:
    """Return the ids of the tasks whose messages are in a queue, or were handed out and not acknowledged."""
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        if connection.transport.driver_type == "redis":
            client = channel.client
            kinds = {key: client.type(key) for key in client.scan_iter()}
            texts = [text for key, kind in kinds.items() if kind == b"list" for text in client.lrange(key, 0, -1)]
            texts += [text for key, kind in kinds.items() if kind == b"hash" for text in client.hvals(key)]
            return sorted({found for text in texts for found in re.findall(r'"id": "([^"]+)"', text.decode())})
        found = []
        for queue in ("a", "b"):
            channel.queue_declare(queue, durable=True, auto_delete=False)
            while True:
                # Not acknowledged: when the connection closes they are back in the queue.
                message = channel.basic_get(queue)
                if message is None:
                    break
                found.append(message.headers["id"])
        return sorted(found)


def main(words: list[str]) -> None:
    """Do what the first word says."""
    verb, rest = words[0], words[1:]
    if verb == "send":
        send(*rest)
    elif verb == "revoke":
        app.control.revoke(rest, terminate=True)
    elif verb == "shutdown":
        app.control.shutdown()
    elif verb == "waiting":
        print("\n".join(waiting()))
    elif verb == "prepare":
        run_log.create()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
