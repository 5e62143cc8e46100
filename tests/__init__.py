"""Tests; they mirror the names of the modules."""
