from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SwitchState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SWITCH_STATE_UNSPECIFIED: _ClassVar[SwitchState]
    SWITCH_STATE_READY: _ClassVar[SwitchState]
    SWITCH_STATE_DOWN: _ClassVar[SwitchState]
    SWITCH_STATE_UNUSED: _ClassVar[SwitchState]
SWITCH_STATE_UNSPECIFIED: SwitchState
SWITCH_STATE_READY: SwitchState
SWITCH_STATE_DOWN: SwitchState
SWITCH_STATE_UNUSED: SwitchState

class WatchRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class Incarnation(_message.Message):
    __slots__ = ("job", "epoch", "round", "fraction_bits", "version", "placement", "planned", "reason", "chain", "on_switch")
    JOB_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FRACTION_BITS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    ON_SWITCH_FIELD_NUMBER: _ClassVar[int]
    job: int
    epoch: int
    round: int
    fraction_bits: int
    version: int
    placement: bytes
    planned: bool
    reason: str
    chain: _containers.RepeatedScalarFieldContainer[str]
    on_switch: bool
    def __init__(self, job: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., fraction_bits: _Optional[int] = ..., version: _Optional[int] = ..., placement: _Optional[bytes] = ..., planned: bool = ..., reason: _Optional[str] = ..., chain: _Optional[_Iterable[str]] = ..., on_switch: bool = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("job", "server_process", "seen_epoch", "round", "reason")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SERVER_PROCESS_FIELD_NUMBER: _ClassVar[int]
    SEEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job: int
    server_process: int
    seen_epoch: int
    round: int
    reason: str
    def __init__(self, job: _Optional[int] = ..., server_process: _Optional[int] = ..., seen_epoch: _Optional[int] = ..., round: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspectRequest(_message.Message):
    __slots__ = ("job", "server_process", "seen_epoch", "round", "reason")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SERVER_PROCESS_FIELD_NUMBER: _ClassVar[int]
    SEEN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job: int
    server_process: int
    seen_epoch: int
    round: int
    reason: str
    def __init__(self, job: _Optional[int] = ..., server_process: _Optional[int] = ..., seen_epoch: _Optional[int] = ..., round: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class SuspectReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Standing(_message.Message):
    __slots__ = ("round", "gradients", "escaped", "goodput_bps", "exponents")
    class ExponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    ROUND_FIELD_NUMBER: _ClassVar[int]
    GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    ESCAPED_FIELD_NUMBER: _ClassVar[int]
    GOODPUT_BPS_FIELD_NUMBER: _ClassVar[int]
    EXPONENTS_FIELD_NUMBER: _ClassVar[int]
    round: int
    gradients: int
    escaped: int
    goodput_bps: float
    exponents: _containers.ScalarMap[int, int]
    def __init__(self, round: _Optional[int] = ..., gradients: _Optional[int] = ..., escaped: _Optional[int] = ..., goodput_bps: _Optional[float] = ..., exponents: _Optional[_Mapping[int, int]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("job", "server_process", "standing")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SERVER_PROCESS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    job: int
    server_process: int
    standing: Standing
    def __init__(self, job: _Optional[int] = ..., server_process: _Optional[int] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("epoch", "round", "fraction_bits", "version", "hot_keys", "switch_state", "reasons", "changes", "standing", "reported_s_ago")
    class ReasonsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    FRACTION_BITS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOT_KEYS_FIELD_NUMBER: _ClassVar[int]
    SWITCH_STATE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    REPORTED_S_AGO_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    round: int
    fraction_bits: int
    version: int
    hot_keys: int
    switch_state: SwitchState
    reasons: _containers.ScalarMap[str, int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    standing: Standing
    reported_s_ago: float
    def __init__(self, epoch: _Optional[int] = ..., round: _Optional[int] = ..., fraction_bits: _Optional[int] = ..., version: _Optional[int] = ..., hot_keys: _Optional[int] = ..., switch_state: _Optional[_Union[SwitchState, str]] = ..., reasons: _Optional[_Mapping[str, int]] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., reported_s_ago: _Optional[float] = ...) -> None: ...

class FollowReadsRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class ReadRows(_message.Message):
    __slots__ = ("job", "number", "epoch", "chain", "row", "rows")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    job: int
    number: int
    epoch: int
    chain: _containers.RepeatedScalarFieldContainer[str]
    row: int
    rows: int
    def __init__(self, job: _Optional[int] = ..., number: _Optional[int] = ..., epoch: _Optional[int] = ..., chain: _Optional[_Iterable[str]] = ..., row: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class RoundCell(_message.Message):
    __slots__ = ("round", "row", "lane", "digits_value")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    DIGITS_VALUE_FIELD_NUMBER: _ClassVar[int]
    round: int
    row: int
    lane: int
    digits_value: int
    def __init__(self, round: _Optional[int] = ..., row: _Optional[int] = ..., lane: _Optional[int] = ..., digits_value: _Optional[int] = ...) -> None: ...

class TellRowsRequest(_message.Message):
    __slots__ = ("job", "number", "open_round", "cells", "failure")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OPEN_ROUND_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    job: int
    number: int
    open_round: int
    cells: _containers.RepeatedCompositeFieldContainer[RoundCell]
    failure: str
    def __init__(self, job: _Optional[int] = ..., number: _Optional[int] = ..., open_round: _Optional[int] = ..., cells: _Optional[_Iterable[_Union[RoundCell, _Mapping]]] = ..., failure: _Optional[str] = ...) -> None: ...

class TellRowsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Change(_message.Message):
    __slots__ = ("epoch", "reason")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    reason: str
    def __init__(self, epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
