"""A training program as a user writes one, started by torchrun: `torch_program JOB_FILE`.

The model has a table looked up one by one, a table of bags, and a dense part. Rank 0 writes the
losses and the trained model beside the job file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from host_stack.shards import Shards
from host_stack.torch import LibraOptimizer, connected, dense_parameters, join_group

STEPS, BATCH, PARTS = 6, 12, 2
USERS, ITEMS, DIM, WORDS = 60, 40, 3, 5
LEARNING_RATE = 0.5


class Net(nn.Module):
    """Scores a user and a bag of items."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.users = nn.Embedding(USERS, DIM, sparse=True)
        self.items = nn.EmbeddingBag(ITEMS, DIM, mode="mean", sparse=True)
        self.out = nn.Linear(2 * DIM, 1)

    def forward(self, users: Any, items: Any) -> Any:
        """Scores [n] of users [n] and items [n, WORDS]."""
        return self.out(torch.cat([self.users(users), self.items(items)], dim=1)).squeeze(1)


def batch(rank: int, step: int, part: int) -> tuple[Any, Any, Any]:
    """One of the PARTS of a rank's batch: users, items and labels."""
    random = np.random.default_rng([7, rank, step, part])
    users = torch.from_numpy(random.zipf(1.5, BATCH).astype(np.int64) % USERS)
    items = torch.from_numpy(random.zipf(1.5, (BATCH, WORDS)).astype(np.int64) % ITEMS)
    return users, items, torch.from_numpy(random.standard_normal(BATCH).astype(np.float32))


def loss_of(net: Net, rank: int, step: int, part: int) -> Any:
    """The mean loss of a part of a batch."""
    users, items, labels = batch(rank, step, part)
    return (net(users, items) - labels).square().mean()


def alone(world_size: int) -> tuple[list[float], dict[str, Any]]:
    """What one process with all batches comes to: the losses of its steps, and the model."""
    net, losses = Net(), []
    optimizer = torch.optim.SGD(net.parameters(), LEARNING_RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        parts = [
            loss_of(net, rank, step, part) for rank in range(world_size) for part in range(PARTS)
        ]
        loss = torch.stack(parts).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net.state_dict()


def main(path: Path) -> None:
    """Train as one of several processes; each batch in PARTS backward passes."""
    torch.set_num_threads(1)
    job = Shards.load(path)
    place = join_group(job)
    net, losses = Net(), []
    with connected(job, place.rank, multicast=False) as connection:
        dense = torch.optim.SGD(dense_parameters(net), LEARNING_RATE)
        optimizer = LibraOptimizer(net, connection.worker, dense)
        for step in range(optimizer.start(), STEPS):
            optimizer.zero_grad()
            loss = torch.zeros(())
            for part in range(PARTS):
                some = loss_of(net, place.rank, step, part) / PARTS
                some.backward()
                loss += some.detach()
            optimizer.step()
            dist.all_reduce(loss)
            losses.append(loss.item() / place.world_size)
        optimizer.fetch_all()
        if place.rank == 0:
            state = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({"losses": losses, **state}, path.with_name("state.pt"))
        optimizer.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
