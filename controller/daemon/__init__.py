"""The controller as a daemon: it owns the jobs and the switches of an inventory."""
