"""Who may write: client arbitration.

The specification's section "Client Arbitration and Controller Replication". The primary of a role
is the live controller with the highest election id ever received for it. When it goes away nobody
is primary until a controller asks again: the others are told (NOT_FOUND) with the highest election
id, take it, and the first one wins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
from finsy.proto import U128, p4r, rpc_status
from google.protobuf import any_pb2

from softswitch.p4runtime.errors import (
    code_number,
    denied,
    exhausted,
    invalid,
    not_found,
    precondition,
)
from softswitch.p4runtime.roles import FULL_ACCESS, Access, read_config

MAX_ROLES = 16
"""Roles that a switch remembers; it never forgets one, since its highest election id must last."""


@dataclass(eq=False)
class Controller:
    """One StreamChannel as arbitration sees it."""

    send: Callable[[p4r.StreamMessageResponse], None]
    role: str | None = None
    """Name of its role; None until its first arbitration update is accepted."""
    election_id: int | None = None
    """None if it gave none: it can never become primary."""


@dataclass
class _Role:
    controllers: list[Controller] = field(default_factory=list)
    primary: Controller | None = None
    highest: int | None = None
    config: any_pb2.Any | None = None
    """As the primary gave it last, and what it means."""
    access: Access = FULL_ACCESS


class Arbitration:
    """Primary and backups of one device, per role. Thread-safe."""

    # Two locks: `_turn` makes arbitration updates and departures one after the other, and is held
    # while the last Write of a former primary ends; `_state` is held for instants only, also by
    # Writes (which hold the device's lock at that time), so the two can never wait in a circle.

    def __init__(self, device_id: int, wait_for_writes: Callable[[], None]) -> None:
        self._device_id = device_id
        self._wait_for_writes = wait_for_writes
        self._turn = threading.Lock()
        self._state = threading.Lock()
        self._roles: dict[str, _Role] = {"": _Role()}

    def update(self, controller: Controller, message: p4r.MasterArbitrationUpdate) -> None:
        """Handle a MasterArbitrationUpdate of `controller` and notify whom it concerns.

        Raises P4RuntimeError where the specification wants the stream terminated.
        """
        election_id = U128.decode(message.election_id) if message.HasField("election_id") else None
        with self._turn:
            with self._state:
                self._check_stream(controller, message)
                config = self._config(message.role)
                role = self._join(controller, message.role.name, election_id)
                wins = election_id is not None and election_id >= (role.highest or 0)
            if wins:
                self._promote(role, controller, *config)
            else:
                self._back_up(role, controller)

    def leave(self, controller: Controller) -> None:
        """Forget a controller whose stream has ended; calling it again does nothing."""
        with self._turn, self._state:
            role = self._roles.get(controller.role) if controller.role is not None else None
            if role is None or controller not in role.controllers:
                return
            role.controllers.remove(controller)
            if role.primary is controller:
                role.primary = None
                self._notify(role, role.controllers)

    def check_primary(self, role_name: str, election_id: p4r.Uint128 | None) -> Access:
        """Raise unless `election_id` (None: unset) is that of the primary of the role.

        NOT_FOUND for an unknown role, PERMISSION_DENIED otherwise. Returns what the role may do.
        """
        with self._state:
            role = self._role(role_name)
            if role.primary is None:
                raise denied("no controller is primary; become primary by arbitration first")
            if election_id is None:
                raise denied("election_id is not set; only the primary may change the switch")
            given = U128.decode(election_id)
            if given != role.primary.election_id:
                raise denied(
                    f"election id {given} is not that of the primary; only the primary may "
                    "change the switch"
                )
            return role.access

    def access(self, role_name: str) -> Access:
        """Return what a role may do; raises NOT_FOUND if no controller has taken it."""
        with self._state:
            return self._role(role_name).access

    def foreign_objects(self, role_name: str) -> frozenset[int]:
        """Return what other roles with a live controller have exclusively.

        The default role has access to everything, so for it there is no such object.
        """
        if not role_name:
            return frozenset()
        with self._state:
            return self._exclusive(role_name)

    def is_primary(self, controller: Controller) -> bool:
        """Tell whether `controller` is primary of its role now."""
        with self._state:
            return controller.role is not None and (
                self._roles[controller.role].primary is controller
            )

    def notify_primaries(self, response: p4r.StreamMessageResponse) -> None:
        """Send what happened in the switch to the primary of every role that it concerns."""
        with self._state:
            found = [(role.primary, role.access) for role in self._roles.values() if role.primary]
        for controller, access in found:
            part = access.visible(response)
            if part is not None:
                controller.send(part)

    def _role(self, name: str) -> _Role:
        role = self._roles.get(name)
        if role is None:
            raise not_found(
                f"role {name!r} is unknown to device {self._device_id}; no controller has taken "
                "it by arbitration"
            )
        return role

    def _exclusive(self, role_name: str) -> frozenset[int]:
        others = [
            role.access.exclusive
            for name, role in self._roles.items()
            if name != role_name and role.controllers
        ]
        return frozenset().union(*others)

    def _config(self, role: p4r.Role) -> tuple[any_pb2.Any | None, Access]:
        config, access = read_config(role)
        taken = access.exclusive & self._exclusive(role.name)
        if taken:
            raise invalid(
                f"role.config: object {min(taken):#010x} belongs to another role exclusively"
            )
        return config, access

    def _check_stream(self, controller: Controller, message: p4r.MasterArbitrationUpdate) -> None:
        first = controller.role is None
        if message.device_id != self._device_id:
            text = f"device {message.device_id} is unknown; this switch is {self._device_id}"
            if first:
                raise not_found(text)
            raise precondition(f"{text}: a stream cannot change its device")
        if not first and message.role.name != controller.role:
            raise precondition(
                f"role {message.role.name!r} differs from this stream's role "
                f"{controller.role!r}; open a new stream for it"
            )
        if message.role.id:
            raise invalid("role.id is deprecated; leave it unset and give role.name")

    def _join(self, controller: Controller, name: str, election_id: int | None) -> _Role:
        role = self._roles.get(name)
        if role is None:
            if len(self._roles) >= MAX_ROLES:
                raise exhausted(f"role {name!r}: at most {MAX_ROLES} roles are supported")
            role = _Role()
        others = [other.election_id for other in role.controllers if other is not controller]
        if election_id is not None and election_id in others:
            raise invalid(f"election id {election_id} is already used by another stream")
        self._roles[name] = role
        if controller.role is None:
            controller.role = name
            role.controllers.append(controller)
        controller.election_id = election_id
        return role

    def _promote(
        self, role: _Role, controller: Controller, config: any_pb2.Any | None, access: Access
    ) -> None:
        others = [other for other in role.controllers if other is not controller]
        with self._state:
            unchanged = role.primary is controller and role.highest == controller.election_id
            role.highest = controller.election_id
            role.config, role.access = config, access
            if not unchanged:
                role.primary = None
            for other in others:
                other.send(self._message(role, grpc.StatusCode.ALREADY_EXISTS, other))
        if not unchanged:
            self._wait_for_writes()
        with self._state:
            role.primary = controller
            self._notify(role, [controller])

    def _back_up(self, role: _Role, controller: Controller) -> None:
        with self._state:
            if role.primary is controller:
                role.primary = None
                self._notify(role, role.controllers)
            else:
                self._notify(role, [controller])

    def _notify(self, role: _Role, controllers: list[Controller]) -> None:
        for controller in controllers:
            if role.primary is None:
                code = grpc.StatusCode.NOT_FOUND
            elif role.primary is controller:
                code = grpc.StatusCode.OK
            else:
                code = grpc.StatusCode.ALREADY_EXISTS
            controller.send(self._message(role, code, controller))

    def _message(
        self, role: _Role, code: grpc.StatusCode, controller: Controller
    ) -> p4r.StreamMessageResponse:
        update = p4r.MasterArbitrationUpdate(
            device_id=self._device_id,
            status=rpc_status.Status(code=code_number(code), message=_TEXT[code]),
        )
        if controller.role:
            update.role.name = controller.role
            if role.config is not None:
                update.role.config.CopyFrom(role.config)
        if role.highest is not None:
            update.election_id.CopyFrom(U128.encode(role.highest))
        return p4r.StreamMessageResponse(arbitration=update)


_TEXT = {
    grpc.StatusCode.OK: "you are the primary",
    grpc.StatusCode.ALREADY_EXISTS: "another controller is the primary",
    grpc.StatusCode.NOT_FOUND: "there is no primary",
}
