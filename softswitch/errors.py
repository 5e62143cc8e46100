"""Errors of the embedded switch.

Every error names what was given, what is allowed and, where there is one, the way out.
"""


class SoftSwitchError(Exception):
    """Base of all errors that this package raises on purpose."""


class BadProgram(SoftSwitchError):
    """The bmv2 JSON is malformed or contradicts itself."""


class UnsupportedConstruct(SoftSwitchError):
    """The program is well formed but uses something that the switch does not implement.

    `construct` is the name of the construct, `where` the place in the program.
    """

    def __init__(self, construct: str, where: str) -> None:
        self.construct = construct
        self.where = where
        super().__init__(f"{construct} is not supported by the embedded switch (in {where})")


class NoCompiler(SoftSwitchError):
    """No C compiler was found, or it failed on the generated source."""


class PortError(SoftSwitchError):
    """A port number or a network interface cannot be used."""


class CaptureError(SoftSwitchError):
    """Packets cannot be recorded where they were to be."""


class BadCertificate(SoftSwitchError):
    """A file with a certificate or a private key cannot be used."""


class NotFound(SoftSwitchError):
    """The named object or entry does not exist."""


class AlreadyExists(SoftSwitchError):
    """An entry with this key is already there."""


class ResourceExhausted(SoftSwitchError):
    """A table, group or pool is full."""


class InvalidArgument(SoftSwitchError):
    """A value is out of range or of the wrong kind."""


class InUse(SoftSwitchError):
    """Something else refers to the object, which therefore cannot be removed."""
