"""The tests of Stator: tests/README.md says which kind of test to write, and where."""
