"""Mininet nodes, topologies and the runner of `libra run`."""
