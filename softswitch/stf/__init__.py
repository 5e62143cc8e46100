"""STF packet tests: programs with packets that go in and packets that have to come out.

`python -m softswitch.stf DIR` runs all tests of a folder on the embedded switch, in memory.
"""
