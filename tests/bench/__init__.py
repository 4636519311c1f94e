"""The benchmark: made-up hosts, their journals made by systemd's own program, and kill-audit timed beside others.

`workers` and `neighbours` say what a host's programs write, `build` makes journal files and a run log of it, `measure`
runs a program and tells its time and memory, `python -m tests.bench` prints the comparison.
"""
