"""Faults on purpose, threads and long runs: `python -m tests.torture`. `make test` runs a short form of each."""
