"""Placing by co-occurrence: keys that meet share rows, and lanes are balanced."""

from __future__ import annotations

import numpy as np

from controller.placing.cooccurrence import by_cooccurrence, order_by_documents
from controller.placing.documents import Documents, deal, hottest
from controller.placing.measure import measure, rounds_of
from host_stack.layout import Layout
from host_stack.placement import heat_based
from tests.documents import topics

LAYOUT = Layout(lanes=8, rows=1024, window=256, program=1)


def test_keys_of_the_same_documents_are_neighbours() -> None:
    """Groups of one set of documents stay together, larger ones first, within a step of heat."""
    sets = {(0, 1): [1, 5, 9], (1, 2): [2, 6], (0, 3): [3, 7], (2, 3): [4]}
    documents = [
        np.array(
            sorted(key for at, keys in sets.items() if number in at for key in keys), np.uint64
        )
        for number in range(4)
    ]
    hot = Documents.of(np.arange(1, 11, dtype=np.uint64), documents)
    order = hot.keys[order_by_documents(hot)].tolist()
    assert order[:3] == [1, 5, 9]
    assert {tuple(order[3:5]), tuple(order[5:7])} == {(2, 6), (3, 7)}
    assert order[7:] == [4, 8, 10]  # 8 and 10 were never seen


def test_embedding_rows_stay_together() -> None:
    """Keys of a feature are in one row or in two adjacent ones, and in different lanes."""
    rng = np.random.default_rng(3)
    width, features = 5, 120
    chance = np.linspace(0.5, 0.02, features)
    documents = []
    for _ in range(300):
        chosen = np.flatnonzero(rng.random(features) < chance)[:, np.newaxis]
        documents.append((chosen * width + np.arange(width)).ravel().astype(np.uint64))
    keys = np.arange(width * features, dtype=np.uint64)
    placement = by_cooccurrence(Documents.of(keys, documents), 4, 4, LAYOUT, front=20)
    order = np.argsort(placement.keys)
    rows = placement.rows[order].reshape(features, width)
    lanes = placement.lanes[order].reshape(features, width)
    assert (np.ptp(rows, axis=1) <= 1).all()
    assert all(len(set(each)) == width for each in lanes.tolist())


def test_fewer_rows_and_packets_than_by_heat() -> None:
    """On pushes that the placement has not seen."""
    documents = topics(1)
    keys = hottest(documents, 2400)
    rounds = rounds_of(deal(topics(2, 300), 4, 64, seed=1), 4)
    heat = measure(heat_based(keys, LAYOUT), rounds)
    ours = measure(by_cooccurrence(Documents.of(keys, documents), 4, 4, LAYOUT), rounds)
    assert ours.hot_keys == heat.hot_keys
    assert ours.rows_touched < 0.7 * heat.rows_touched
    assert ours.packets_ratio < heat.packets_ratio
    assert ours.hot_bytes < heat.hot_bytes


def test_the_front_is_by_heat() -> None:
    """The first rows hold the hottest keys in their order, a row after the other."""
    documents = topics(1, 200)
    keys = hottest(documents, 800)
    hot = Documents.of(keys, documents)
    placement = by_cooccurrence(hot, 4, 4, LAYOUT, front=6)
    assert placement.keys[:48].tolist() == hot.keys[:48].tolist()
    assert placement.rows[:48].tolist() == np.repeat(np.arange(6), 8).tolist()
