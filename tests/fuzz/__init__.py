"""Fuzzing of the embedded switch: what comes from outside is mutated without end.

`python -m tests.fuzz TARGET` runs until it is stopped or finds something (docs/development.md);
`tests/test_fuzz.py` runs each target for a fixed number of inputs and all inputs that once failed.
"""
