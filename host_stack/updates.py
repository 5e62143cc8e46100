"""UPDATEs at a worker: the new values of hot keys, as the server multicasts them."""

from __future__ import annotations

import numpy as np

from host_stack.codec import Codec, Records, overlay, version_op
from host_stack.fixedpoint import FloatArray, IntArray, MaskArray
from host_stack.job import Job
from host_stack.placement import Placement
from host_stack.transport import Received, ipv4
from host_stack.wire import Op


class Updates:
    """Stores the values of one round's UPDATEs, and tells which rows have come."""

    def __init__(
        self, job: Job, codec: Codec, placement: Placement, parameters: FloatArray
    ) -> None:
        """Write into float32[num_keys] `parameters`; nothing is expected yet."""
        self._job = job.job
        self._server = ipv4(job.server)
        self._codec = codec
        self._placement = placement
        self._parameters = parameters
        self._hot_keys = placement.keys.astype(np.int64)
        self._came = np.zeros(placement.used_rows, np.bool_)
        self._tag = 0

    def expect(self, tag: int) -> None:
        """Take UPDATEs of a tag from now on, and no others."""
        self._tag = tag
        self._came[:] = False

    def missing(self, changed: IntArray) -> IntArray:
        """Those of int64[n] rows of which no UPDATE has come."""
        return changed[~self._came[changed]]

    def take(self, received: Received) -> None:
        """Store the values of the UPDATEs in a batch of datagrams."""
        records = overlay(received.data, self._codec.update)
        good = self._is_update(received, records)
        rows, lanes, values = self._codec.decode_updates(records[good])
        index = self._placement.index_of(lanes, rows)
        known = index >= 0
        self._parameters[self._hot_keys[index[known]]] = values[known]
        self._came[rows[known]] = True

    def _is_update(self, received: Received, records: Records) -> MaskArray:
        header = records["header"]
        good: MaskArray = (
            (received.lengths >= self._codec.update_prefix)
            & (header["version_op"] == version_op(Op.UPDATE))
            & (header["job"] == self._job)
            & (header["tag"] == self._tag)
            & (received.sources == self._server)
            & (received.lengths == self._codec.update_lengths(records))
        )
        return good
