"""Which pieces of an attribute are one class: those that nothing in a workload tells apart. Pure array work on public values.

Twice: pieces on which every leaf agrees are one fine class, and fine classes on which every block agrees are one coarse class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mwem_sql.algebra import partition
from mwem_sql.algebra.arrays import Labels
from mwem_sql.algebra.linear import Block
from mwem_sql.algebra.partition import Encoding, Partition, Runs, Signatures, refine
from mwem_sql.compile.evaluate import Evaluated, Values
from mwem_sql.domains.classes import Classes, Pieces


def fine_classes(
    pieces: Mapping[str, Pieces], values: Evaluated, finer_than: Mapping[str, Classes]
) -> dict[str, Classes]:
    """Pieces on which every leaf takes the same values are one class, which is part of one in `finer_than`."""
    signatures = {name: Signatures(len(own)) for name, own in pieces.items()}
    for item in values.values():
        for axis, name in enumerate(item.columns):
            signatures[name].add(_whole_numbers(item.encoding), axis)
            if item.reach is not None:
                signatures[name].add(_whole_numbers(item.reach), axis)
            if item.doubt is not None:
                signatures[name].add(item.doubt.astype(np.int8), axis)
    return {
        name: Classes(own, refine(_within(finer_than, name, own), signatures[name].rows()))
        for name, own in pieces.items()
    }


def on_classes(item: Values, fine: Mapping[str, Classes]) -> Values:
    """A leaf's values on classes, of one piece each: they are the same on all others."""
    if len(item.columns) == 1:
        first = fine[item.columns[0]].representatives
        reach = None if item.reach is None else item.reach[first]
        doubt = None if item.doubt is None else item.doubt[first]
        return Values(item.columns, partition.take(item.encoding, first), item.labels, reach, doubt)
    array, doubt = item.array, item.doubt
    for axis, name in enumerate(item.columns):
        array = array.take(fine[name].representatives, axis=axis)
        doubt = None if doubt is None else doubt.take(fine[name].representatives, axis=axis)
    return Values(item.columns, array, item.labels, doubt=doubt)


def coarse_classes(
    blocks: Iterable[Block], fine: Mapping[str, Classes], finer_than: Mapping[str, Classes]
) -> dict[str, Classes]:
    """Fine classes that no block tells apart are one class: the coarsest partition that answers the workload exactly."""
    signatures = {name: Signatures(own.count) for name, own in fine.items()}
    for block in blocks:
        for axis, name in enumerate(block.attributes):
            signatures[name].add(block.encoding, axis)
            if block.values is not None:
                signatures[name].add(block.values, axis)
    within = {name: _within(finer_than, name, own.pieces)[own.representatives] for name, own in fine.items()}
    return {
        name: own.merge(Partition(within[name], own.sizes).refine(signatures[name].rows()))
        for name, own in fine.items()
    }


def _within(finer_than: Mapping[str, Classes], name: str, pieces: Pieces) -> Labels:
    """The class that each piece must stay in: a release's, or one for all."""
    return finer_than[name].holding(pieces) if name in finer_than else np.zeros(len(pieces), dtype=np.int32)


def _whole_numbers(encoding: Encoding) -> Encoding:
    """Numbers of a measure by their rank; all others are whole numbers."""
    if isinstance(encoding, Runs) or encoding.dtype.kind != "f":
        return encoding
    return np.unique(encoding, return_inverse=True)[1].reshape(encoding.shape)
