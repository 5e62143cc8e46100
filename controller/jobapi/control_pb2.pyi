from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Placed(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACED_UNSPECIFIED: _ClassVar[Placed]
    PLACED_JOB: _ClassVar[Placed]
    PLACED_GROUP: _ClassVar[Placed]
    PLACED_NOTHING: _ClassVar[Placed]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_DECLARED: _ClassVar[JobState]
    JOB_STATE_PENDING: _ClassVar[JobState]
    JOB_STATE_READY: _ClassVar[JobState]
    JOB_STATE_DOWN: _ClassVar[JobState]

class Through(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THROUGH_UNSPECIFIED: _ClassVar[Through]
    THROUGH_REGISTERS: _ClassVar[Through]
    THROUGH_DRAINS: _ClassVar[Through]
PLACED_UNSPECIFIED: Placed
PLACED_JOB: Placed
PLACED_GROUP: Placed
PLACED_NOTHING: Placed
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_DECLARED: JobState
JOB_STATE_PENDING: JobState
JOB_STATE_READY: JobState
JOB_STATE_DOWN: JobState
THROUGH_UNSPECIFIED: Through
THROUGH_REGISTERS: Through
THROUGH_DRAINS: Through

class JobSpec(_message.Message):
    __slots__ = ("job", "fraction_bits", "num_keys", "workers", "server", "switch", "group", "scheduler", "placed", "rows", "transport", "timeouts_s", "key_file")
    class TimeoutsSEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    FRACTION_BITS_FIELD_NUMBER: _ClassVar[int]
    NUM_KEYS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_S_FIELD_NUMBER: _ClassVar[int]
    KEY_FILE_FIELD_NUMBER: _ClassVar[int]
    job: int
    fraction_bits: int
    num_keys: int
    workers: _containers.RepeatedScalarFieldContainer[str]
    server: str
    switch: str
    group: str
    scheduler: str
    placed: Placed
    rows: int
    transport: str
    timeouts_s: _containers.ScalarMap[str, float]
    key_file: str
    def __init__(self, job: _Optional[int] = ..., fraction_bits: _Optional[int] = ..., num_keys: _Optional[int] = ..., workers: _Optional[_Iterable[str]] = ..., server: _Optional[str] = ..., switch: _Optional[str] = ..., group: _Optional[str] = ..., scheduler: _Optional[str] = ..., placed: _Optional[_Union[Placed, str]] = ..., rows: _Optional[int] = ..., transport: _Optional[str] = ..., timeouts_s: _Optional[_Mapping[str, float]] = ..., key_file: _Optional[str] = ...) -> None: ...

class Seat(_message.Message):
    __slots__ = ("switch", "slot", "row_base", "rows")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ROW_BASE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    switch: str
    slot: int
    row_base: int
    rows: int
    def __init__(self, switch: _Optional[str] = ..., slot: _Optional[int] = ..., row_base: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class JobInfo(_message.Message):
    __slots__ = ("spec", "state", "epoch", "version", "hot_keys", "slot", "row_base", "rows", "group_id", "job_file", "installed_version", "chain")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOT_KEYS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ROW_BASE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FILE_FIELD_NUMBER: _ClassVar[int]
    INSTALLED_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    state: JobState
    epoch: int
    version: int
    hot_keys: int
    slot: int
    row_base: int
    rows: int
    group_id: int
    job_file: str
    installed_version: int
    chain: _containers.RepeatedCompositeFieldContainer[Seat]
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., hot_keys: _Optional[int] = ..., slot: _Optional[int] = ..., row_base: _Optional[int] = ..., rows: _Optional[int] = ..., group_id: _Optional[int] = ..., job_file: _Optional[str] = ..., installed_version: _Optional[int] = ..., chain: _Optional[_Iterable[_Union[Seat, _Mapping]]] = ...) -> None: ...

class CreateJobRequest(_message.Message):
    __slots__ = ("request_id", "spec", "placement")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    spec: JobSpec
    placement: bytes
    def __init__(self, request_id: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., placement: _Optional[bytes] = ...) -> None: ...

class DescribeJobRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("page_size", "after_job")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    AFTER_JOB_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    after_job: int
    def __init__(self, page_size: _Optional[int] = ..., after_job: _Optional[int] = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs", "more")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobInfo]
    more: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobInfo, _Mapping]]] = ..., more: bool = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("request_id", "job")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job: int
    def __init__(self, request_id: _Optional[str] = ..., job: _Optional[int] = ...) -> None: ...

class DeleteJobReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChangeJobRequest(_message.Message):
    __slots__ = ("request_id", "job", "placement", "fraction_bits")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    FRACTION_BITS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job: int
    placement: bytes
    fraction_bits: int
    def __init__(self, request_id: _Optional[str] = ..., job: _Optional[int] = ..., placement: _Optional[bytes] = ..., fraction_bits: _Optional[int] = ...) -> None: ...

class DeclareWorkersRequest(_message.Message):
    __slots__ = ("request_id", "job", "workers")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    job: int
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., job: _Optional[int] = ..., workers: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSwitchesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Block(_message.Message):
    __slots__ = ("base", "rows")
    BASE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    base: int
    rows: int
    def __init__(self, base: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class SwitchInfo(_message.Message):
    __slots__ = ("name", "address", "target", "device_id", "rack", "ready", "reason", "rows", "free_rows", "free", "fragmentation", "jobs", "written")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FREE_ROWS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTATION_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    target: str
    device_id: int
    rack: str
    ready: bool
    reason: str
    rows: int
    free_rows: int
    free: _containers.RepeatedCompositeFieldContainer[Block]
    fragmentation: float
    jobs: _containers.RepeatedScalarFieldContainer[int]
    written: int
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., target: _Optional[str] = ..., device_id: _Optional[int] = ..., rack: _Optional[str] = ..., ready: bool = ..., reason: _Optional[str] = ..., rows: _Optional[int] = ..., free_rows: _Optional[int] = ..., free: _Optional[_Iterable[_Union[Block, _Mapping]]] = ..., fragmentation: _Optional[float] = ..., jobs: _Optional[_Iterable[int]] = ..., written: _Optional[int] = ...) -> None: ...

class ListSwitchesReply(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[SwitchInfo]
    def __init__(self, switches: _Optional[_Iterable[_Union[SwitchInfo, _Mapping]]] = ...) -> None: ...

class ReadStatsRequest(_message.Message):
    __slots__ = ("job", "switch")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    job: int
    switch: str
    def __init__(self, job: _Optional[int] = ..., switch: _Optional[str] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("switch", "job", "reason", "packets")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    switch: str
    job: int
    reason: str
    packets: int
    def __init__(self, switch: _Optional[str] = ..., job: _Optional[int] = ..., reason: _Optional[str] = ..., packets: _Optional[int] = ...) -> None: ...

class MemberCount(_message.Message):
    __slots__ = ("switch", "job", "worker", "port", "address", "packets")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    switch: str
    job: int
    worker: int
    port: int
    address: str
    packets: int
    def __init__(self, switch: _Optional[str] = ..., job: _Optional[int] = ..., worker: _Optional[int] = ..., port: _Optional[int] = ..., address: _Optional[str] = ..., packets: _Optional[int] = ...) -> None: ...

class PortCount(_message.Message):
    __slots__ = ("switch", "port", "packets")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    switch: str
    port: int
    packets: int
    def __init__(self, switch: _Optional[str] = ..., port: _Optional[int] = ..., packets: _Optional[int] = ...) -> None: ...

class ReadStatsReply(_message.Message):
    __slots__ = ("counts", "missing", "members", "foreign")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    missing: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedCompositeFieldContainer[MemberCount]
    foreign: _containers.RepeatedCompositeFieldContainer[PortCount]
    def __init__(self, counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., missing: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[_Union[MemberCount, _Mapping]]] = ..., foreign: _Optional[_Iterable[_Union[PortCount, _Mapping]]] = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ("job", "row", "rows", "windows", "switch", "through")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    job: int
    row: int
    rows: int
    windows: bool
    switch: str
    through: Through
    def __init__(self, job: _Optional[int] = ..., row: _Optional[int] = ..., rows: _Optional[int] = ..., windows: bool = ..., switch: _Optional[str] = ..., through: _Optional[_Union[Through, str]] = ...) -> None: ...

class Cell(_message.Message):
    __slots__ = ("row", "lane", "bank", "epoch", "round", "digits_value")
    ROW_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    BANK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    DIGITS_VALUE_FIELD_NUMBER: _ClassVar[int]
    row: int
    lane: int
    bank: int
    epoch: int
    round: int
    digits_value: int
    def __init__(self, row: _Optional[int] = ..., lane: _Optional[int] = ..., bank: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., digits_value: _Optional[int] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("rank", "newest", "places", "epoch")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    rank: int
    newest: int
    places: int
    epoch: int
    def __init__(self, rank: _Optional[int] = ..., newest: _Optional[int] = ..., places: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class DumpReply(_message.Message):
    __slots__ = ("cells", "windows", "open_round", "epoch", "through")
    CELLS_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    OPEN_ROUND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    cells: _containers.RepeatedCompositeFieldContainer[Cell]
    windows: _containers.RepeatedCompositeFieldContainer[Window]
    open_round: int
    epoch: int
    through: Through
    def __init__(self, cells: _Optional[_Iterable[_Union[Cell, _Mapping]]] = ..., windows: _Optional[_Iterable[_Union[Window, _Mapping]]] = ..., open_round: _Optional[int] = ..., epoch: _Optional[int] = ..., through: _Optional[_Union[Through, str]] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("after", "job", "stop_at_end")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    STOP_AT_END_FIELD_NUMBER: _ClassVar[int]
    after: int
    job: int
    stop_at_end: bool
    def __init__(self, after: _Optional[int] = ..., job: _Optional[int] = ..., stop_at_end: bool = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "at_s", "kind", "job", "switch", "text")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_s: float
    kind: str
    job: int
    switch: str
    text: str
    def __init__(self, number: _Optional[int] = ..., at_s: _Optional[float] = ..., kind: _Optional[str] = ..., job: _Optional[int] = ..., switch: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
