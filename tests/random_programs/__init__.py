"""Random programs, each run uncompiled and compiled: `python -m tests.random_programs --count 20000 --seed 0 --jobs 2`.

A program is a text with a function `f`, outside state and STEPS. A step is a change of the state and the arguments of
a call. After every call all that a user could notice is compared. What differs is shrunk and printed as a file to run.
"""
