"""Packet tests of single constructs, with compiled programs (see docs/conformance.md)."""
