"""The embedding model of `workloads.dlrm` in PyTorch: the same parameters, the same function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from workloads.examples import Examples, Float32Array, Int64Array
from workloads.table_part import TablePart


@dataclass(frozen=True)
class Batch:
    """Examples as tensors.

    Attributes:
        features: int64[nnz], in the order of `bags`.
        values: float32[nnz].
        bags: int64[n · fields], where the features of each example's field begin.
        labels: float32[n].
    """

    features: Any
    values: Any
    bags: Any
    labels: Any

    @classmethod
    def of(cls, examples: Examples, field_starts: Int64Array) -> Batch:
        """Of examples whose field i has features `field_starts[i]` up to `field_starts[i + 1]`."""
        fields = len(field_starts) - 1
        field = np.searchsorted(field_starts, examples.features, side="right") - 1
        slots = examples.row_of_pair() * fields + field
        order = np.argsort(slots, kind="stable")
        bags = np.searchsorted(slots[order], np.arange(len(examples) * fields))
        return cls(
            torch.from_numpy(examples.features[order]),
            torch.from_numpy(examples.values[order]),
            torch.from_numpy(bags.astype(np.int64)),
            torch.from_numpy(examples.labels.copy()),
        )


class TorchDlrm(nn.Module):  # type: ignore[misc]
    """Embeddings of fields, their inner products, and a network of one hidden layer on top.

    The table `rows` is a sparse `nn.EmbeddingBag`: an example's field is a bag.
    """

    def __init__(self, part: TablePart, seed: int, task: str) -> None:
        """With the parameters that the numpy model begins with; `task` is that of the data set."""
        super().__init__()
        whole = part.whole
        self.fields, self.dim = whole.fields, whole.dim
        self._is_rating = task == "rating"
        table = part.initial_params(seed).reshape(whole.num_features, whole.dim)
        self.rows = nn.EmbeddingBag.from_pretrained(
            torch.from_numpy(table.copy()), freeze=False, mode="sum", sparse=True
        )
        self.hidden = nn.Linear(whole.inputs, whole.hidden)
        self.out = nn.Linear(whole.hidden, 1)
        left, right = np.triu_indices(whole.fields, 1)
        self.register_buffer("left", torch.from_numpy(left.copy()))
        self.register_buffer("right", torch.from_numpy(right.copy()))
        self.load_dense(part.dense)

    def forward(self, batch: Batch) -> Any:
        """The score of each example, float32[n]."""
        bags = self.rows(batch.features, batch.bags, per_sample_weights=batch.values)
        fields = bags.view(-1, self.fields, self.dim)
        products = (fields[:, self.left] * fields[:, self.right]).sum(dim=2)
        inputs = torch.cat([fields.flatten(1), products], dim=1)
        return self.out(torch.relu(self.hidden(inputs))).squeeze(1)

    def loss(self, batch: Batch) -> Any:
        """The mean loss: half the squared error of ratings, cross entropy for 0 and 1."""
        scores = self(batch)
        if self._is_rating:
            return (scores - batch.labels).square().mean() / 2
        return nn.functional.binary_cross_entropy_with_logits(scores, batch.labels)

    def dense(self) -> Float32Array:
        """The dense parameters in the order of the numpy model's keys: float32[n], a copy."""
        parts = (self.hidden.weight.T, self.hidden.bias, self.out.weight, self.out.bias)
        flat = [part.detach().cpu().numpy().ravel() for part in parts]
        joined: Float32Array = np.concatenate(flat)
        return joined

    def load_dense(self, values: Float32Array) -> None:
        """Take over float32[n] dense parameters in the order of `dense`."""
        parts = (self.hidden.weight.T, self.hidden.bias, self.out.weight, self.out.bias)
        split = torch.split(torch.from_numpy(values.copy()), [part.numel() for part in parts])
        with torch.no_grad():
            for part, some in zip(parts, split, strict=True):
                part.copy_(some.view(part.shape))
