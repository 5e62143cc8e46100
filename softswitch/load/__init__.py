"""Reading and validating bmv2 JSON: bytes in, `softswitch.program.Program` out."""

from softswitch.load.program import load_program

__all__ = ["load_program"]
