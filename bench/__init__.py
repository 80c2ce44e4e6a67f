"""Stator and torch._dynamo on the same programs, in one process: `python -m bench`."""
