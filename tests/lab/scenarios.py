"""The table of scenarios."""

from . import deaths, deploys, hosts, logs, queues

SCENARIOS = (*deploys.SCENARIOS, *deaths.SCENARIOS, *queues.SCENARIOS, *logs.SCENARIOS, *hosts.SCENARIOS)
