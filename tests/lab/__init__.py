"""The kill lab: real Celery workers under a real systemd in a container, really killed; the tasks write the truth.

`root` makes the Debian that is booted; `container` boots and stops it, in `cgroups` of its own; `locks` keep labs that
run at once apart. `stage` is what a scenario may do with the workers in it, `scenarios` the table of what is done
(`deploys`, `deaths`, `queues`, `logs` and `hosts` do it), `truth` what came of it, `shop` the Celery application.

`python -m tests.lab` records scenarios. `test_lab` compares what kill-audit says with the truth, `test_journey` goes
from the wheel to the mail, and `test_fresh` tries the README's first page in fresh Debians.
"""
