"""CurveZMQ for the cold path: one key pair for all nodes of a job, known to nobody else.

Each node proves the key to each other one, in both directions: a stranger can neither connect nor
listen in the place of a node, and what travels is encrypted (RFC 26/CurveZMQ). The file of a key
is a secret; it is carried to the hosts by whoever runs the job.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from host_stack.jsonfile import read_json_object
from host_stack.kv.errors import KVConfigError

SCHEMA = 1
_DOMAIN = b"libra"
_KEY_CHARACTERS = 40
"""Of a key in Z85."""


@dataclass(frozen=True, slots=True)
class JobKey:
    """The key pair of a job, in Z85. The secret is not shown."""

    public: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        try:
            fits = zmq.curve_public(self.secret) == self.public
        except (ValueError, zmq.ZMQError):
            fits = False
        if not fits or len(self.public) != _KEY_CHARACTERS:
            raise KVConfigError("the two keys do not belong together; make a file by `libra key`")

    @classmethod
    def make(cls) -> JobKey:
        """A new one."""
        return cls(*zmq.curve_keypair())

    @classmethod
    def load(cls, path: Path) -> JobKey:
        """Read a file of `save`; KVConfigError if it is none, or if others may read it."""
        fields = read_json_object(path, "key of a job")
        if path.stat().st_mode & 0o077:
            raise KVConfigError(f"{path} can be read by others: chmod 600 {path}, or make another")
        try:
            if fields["schema"] != SCHEMA:
                raise ValueError(f"schema {fields['schema']}, this version reads {SCHEMA}")
            return cls(str(fields["public"]).encode(), str(fields["secret"]).encode())
        except (KeyError, ValueError, KVConfigError) as error:
            raise KVConfigError(f"{path} is not the key of a job: {error}") from error

    def save(self, path: Path) -> None:
        """Write a file that its owner alone may read; KVConfigError if there is one already."""
        keys = {"public": self.public.decode(), "secret": self.secret.decode()}
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise KVConfigError(f"cannot write {path}: {error.strerror}") from error
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps({"schema": SCHEMA, **keys}) + "\n")

    def protect_listener(self, socket: zmq.Socket[bytes]) -> None:
        """Before it binds: only peers of the job get through (with `Doorkeeper` at work)."""
        socket.set(zmq.ZAP_DOMAIN, _DOMAIN)
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_PUBLICKEY, self.public)
        socket.set(zmq.CURVE_SECRETKEY, self.secret)

    def protect_caller(self, socket: zmq.Socket[bytes]) -> None:
        """Before it connects: only to a peer of the job."""
        socket.set(zmq.CURVE_SERVERKEY, self.public)
        socket.set(zmq.CURVE_PUBLICKEY, self.public)
        socket.set(zmq.CURVE_SECRETKEY, self.secret)


class Doorkeeper:
    """Lets those connect to the listeners of a context who have the key of the job."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], key: JobKey) -> None:
        """Start; must be done before a listener binds."""
        self._key = key
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN.decode(), self)

    def callback(self, domain: str, key: bytes) -> bool:
        """Called for each connection, in a thread of its own."""
        del domain
        return key == self._key.public

    def stop(self) -> None:
        """Stop; must be done before the context ends."""
        self._authenticator.stop()
