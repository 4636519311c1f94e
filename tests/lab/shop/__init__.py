"""The shop: a small Celery application that the lab runs under systemd and kills.

Everything that a scenario varies comes from the environment, as in a unit's `Environment=`. Runs on Celery 4.4 to 5.7.
"""

import os

from celery import Celery

from . import logs

app = Celery("shop", include=["shop.tasks"])
app.conf.update(
    broker_url=os.environ.get("SHOP_BROKER", "redis://127.0.0.1:6379/0"),
    result_backend=os.environ.get("SHOP_RESULTS", "db+sqlite:////srv/shop/results.sqlite3"),
    broker_connection_retry_on_startup=True,
    result_extended=True,
    task_default_queue="a",
    timezone="UTC",
    worker_prefetch_multiplier=int(os.environ.get("SHOP_PREFETCH", "4")),
    worker_soft_shutdown_timeout=float(os.environ.get("SHOP_SOFT_SHUTDOWN", "0")),
)
if "SHOP_VISIBILITY" in os.environ:
    app.conf.broker_transport_options = {"visibility_timeout": int(os.environ["SHOP_VISIBILITY"])}

logs.arrange(app, os.environ.get("SHOP_LOGS", "default"))
