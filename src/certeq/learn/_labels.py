"""Labels as positions among known classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def positions(y: Any, classes: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return where each label stands among the (sorted) classes; an unknown label is named.

    >>> positions(["b", "a"], np.array(["a", "b"]), 2)
    array([1, 0])
    """
    labels = np.asarray(y).ravel()
    if len(labels) != n:
        raise ValueError(f"y must have one label per sample, {n}; found {len(labels)}.")
    places = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    unknown = np.flatnonzero(classes[places] != labels)
    if unknown.size:
        raise ValueError(f"y holds {labels[unknown[:1]].tolist()[0]!r}, which is not among the classes {classes.tolist()}.")
    return np.asarray(places, dtype=np.intp)
