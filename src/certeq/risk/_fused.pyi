from typing import Any

from numpy.typing import NDArray

EXPONENTIAL: int
LOGISTIC: int
ARCTANGENT: int
POWER: int
LINEAR: int

def slopes(
    kind: int, a: float, b: float, z: NDArray[Any], s: float, q: NDArray[Any], bend: NDArray[Any] | None, /
) -> tuple[float, float]: ...
def settle(
    kind: int, a: float, b: float, z: NDArray[Any], s: float, q: NDArray[Any], bend: NDArray[Any], /
) -> tuple[float, float, float] | None: ...
def solve(
    kind: int, a: float, b: float, x: NDArray[Any], weights: NDArray[Any] | None, tilt: NDArray[Any], /
) -> tuple[float, float] | None: ...
