"""PyTorch models in a job: sparse rows through switch and servers, the rest by all-reduce.

    with connected(job, join_group(job).rank) as connection:
        dense = torch.optim.SGD(dense_parameters(model), 0.1)
        optimizer = LibraOptimizer(model, connection.worker, dense)
        for step in range(optimizer.start(), steps):
            optimizer.zero_grad()
            loss(model(batch(step))).backward()
            optimizer.step()
        optimizer.end()

docs/pytorch.md has a whole program. This package needs the extra `libra-ina[torch]`.
"""

from host_stack.connect import Connection, connected
from host_stack.errors import Rewound
from host_stack.torch.errors import TableError, TorchMissing

try:
    import torch as _torch  # noqa: F401 - only whether it is there
except ImportError as error:
    raise TorchMissing(
        "host_stack.torch needs PyTorch, which is not installed: pip install 'libra-ina[torch]', "
        "or `make torch` in a source tree"
    ) from error

from host_stack.torch.dense import DenseReducer, dense_parameters
from host_stack.torch.environment import Place, join_group
from host_stack.torch.exchange import SparseExchange
from host_stack.torch.optimizer import LibraOptimizer
from host_stack.torch.tables import Tables, find_tables

__all__ = [
    "Connection",
    "DenseReducer",
    "LibraOptimizer",
    "Place",
    "Rewound",
    "SparseExchange",
    "TableError",
    "Tables",
    "TorchMissing",
    "connected",
    "dense_parameters",
    "find_tables",
    "join_group",
]
