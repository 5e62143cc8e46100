"""The few pieces of the proto2 encoding that ps-lite's metadata uses, strict about every byte."""

from collections.abc import Container, Iterator

from host_stack.kv.errors import WireError

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5

_MAX_VARINT_BYTES = 10
_UINT64_END = 1 << 64
_INT32_END = 1 << 31
_INT32_BEGIN = -_INT32_END

FieldValue = int | bytes


def encode_varint(value: int) -> bytes:
    """Encode an unsigned 64-bit number, seven bits a byte, least significant first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_int(field: int, value: int) -> bytes:
    """Encode an integer or boolean field; a negative number takes ten bytes, as in protobuf."""
    if 0 <= value < 0x80:
        return bytes((field << 3 | VARINT, value))
    return bytes((field << 3 | VARINT,)) + encode_varint(value % _UINT64_END)


def encode_bytes(field: int, value: bytes) -> bytes:
    """Encode a field of bytes, a string or a nested message."""
    return bytes((field << 3 | BYTES,)) + encode_varint(len(value)) + value


def decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode the number at `offset`; return it with the offset behind it."""
    if offset < len(data) and data[offset] < 0x80:  # most are of one byte
        return data[offset], offset + 1
    value = 0
    for index, byte in enumerate(data[offset : offset + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= _UINT64_END:
                raise WireError(f"varint at byte {offset} does not fit in 64 bits")
            return value, offset + index + 1
    raise WireError(f"varint at byte {offset} is cut off or longer than {_MAX_VARINT_BYTES} bytes")


def decode_fields(data: bytes, known: Container[int]) -> Iterator[tuple[int, FieldValue]]:
    """Yield (field number, value) of the known fields of a message, in the order of its bytes.

    Unknown fields are checked for their length and skipped.
    """
    offset = 0
    while offset < len(data):
        start = offset
        tag, offset = decode_varint(data, offset)
        field, wire_type = tag >> 3, tag & 7
        if not 0 < field < 1 << 29:
            raise WireError(f"field number {field} at byte {start} is outside of 1 to 2^29 - 1")
        value: FieldValue
        if wire_type == VARINT:
            value, offset = decode_varint(data, offset)
        else:
            size, offset = _field_size(data, offset, wire_type)
            if size > len(data) - offset:
                raise WireError(
                    f"field {field} at byte {start} claims {size} bytes, "
                    f"{len(data) - offset} follow"
                )
            value = data[offset : offset + size]
            offset += size
        if field not in known:
            continue
        if wire_type not in (VARINT, BYTES):
            raise WireError(f"field {field} at byte {start} has wire type {wire_type}, not 0 or 2")
        yield field, value


def _field_size(data: bytes, offset: int, wire_type: int) -> tuple[int, int]:
    """Length of a field that is not a varint, with the offset of its first byte."""
    if wire_type == BYTES:
        return decode_varint(data, offset)
    if wire_type == FIXED64:
        return 8, offset
    if wire_type == FIXED32:
        return 4, offset
    raise WireError(f"wire type {wire_type} at byte {offset} is not 0, 1, 2 or 5")


def as_int32(name: str, value: FieldValue) -> int:
    """Read a decoded varint as a signed 32-bit number."""
    number = as_uint64(name, value)
    if number < _INT32_END:
        return number
    if number >= 1 << 63:
        number -= _UINT64_END
    if not _INT32_BEGIN <= number < _INT32_END:
        raise WireError(f"{name} = {number} does not fit in 32 signed bits")
    return number


def as_uint64(name: str, value: FieldValue) -> int:
    """Read a decoded varint as it is."""
    if isinstance(value, bytes):
        raise WireError(f"{name} must be a varint, {len(value)} bytes were given")
    return value


def as_bool(name: str, value: FieldValue) -> bool:
    """Read a decoded varint as a truth value."""
    number = as_uint64(name, value)
    if number > 1:
        raise WireError(f"{name} = {number} is not a truth value (0 or 1)")
    return number == 1


def as_bytes(name: str, value: FieldValue) -> bytes:
    """Read a decoded field as bytes."""
    if isinstance(value, int):
        raise WireError(f"{name} must be length-delimited, the varint {value} was given")
    return value


def as_packed_int32(name: str, value: FieldValue) -> tuple[int, ...]:
    """Read a packed list of signed 32-bit numbers; a lone varint is a list of one."""
    if isinstance(value, int):
        return (as_int32(name, value),)
    numbers = []
    offset = 0
    while offset < len(value):
        number, offset = decode_varint(value, offset)
        numbers.append(as_int32(name, number))
    return tuple(numbers)
