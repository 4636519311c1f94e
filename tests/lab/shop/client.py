"""The shop's other half: sends tasks to the queues and speaks to the workers, as the app's web side would.

usage: python -m shop.client send '[{"task": "sleepy", "args": [5], "queue": "a", "countdown": 10}]'   prints the ids, one a line
       python -m shop.client revoke ID...     revokes and terminates
       python -m shop.client shutdown         asks all workers to shut down
       python -m shop.client prepare          creates the run log's tables
"""

import json
import sys
from typing import List

from . import app, run_log


def send(orders: str) -> None:
    """Send the tasks and print the id of each. Everything besides the name and the arguments is Celery's own option."""
    for order in json.loads(orders):
        name, args = "shop.tasks." + order.pop("task"), order.pop("args", [])
        print(app.send_task(name, args=args, **order).id)


def main(words: List[str]) -> None:
    """Do what the first word says."""
    verb, rest = words[0], words[1:]
    if verb == "send":
        send(*rest)
    elif verb == "revoke":
        app.control.revoke(rest, terminate=True)
    elif verb == "shutdown":
        app.control.shutdown()
    elif verb == "prepare":
        run_log.create()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
