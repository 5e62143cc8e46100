"""Program to C: one translation unit that includes the run-time headers of this package."""

from softswitch.codegen.unit import generate

__all__ = ["generate"]
