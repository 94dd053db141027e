"""What callers may pass: numbers, counts, choices, arrays, weights. Each returns what it was given, in its final form.

A refusal names the argument, says what would be right and what was found: "<name> must be <wanted>; found <found>." A
TypeError is for what is not a number or an array at all, a ValueError for a value that will not do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._backend import FloatArray, as_float, is_tensor, to_numpy


def shown(found: Any) -> str:
    """What was found, for a message: NumPy's scalars, also in lists and dicts, as the numbers they are.

    >>> import numpy as np
    >>> shown([np.float64(0.5), None])
    '[0.5, None]'
    """
    with np.printoptions(legacy="1.25"):
        return repr(found)


# -- single values ----------------------------------------------------------------------------------------------------

_SHORT = 1024  # entries of which a mask costs less than to set NumPy's error state


def check_number(
    name: str,
    found: Any,
    wanted: str = "",
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    finite: bool = True,
) -> float:
    """A number not below ``least``, above ``above`` and below ``below``; ``wanted`` says so in words.

    NaN is refused always, an infinity unless ``finite`` is False.
    """

    def words() -> str:
        limit = f" not below {least:g}" if least > -math.inf else f" above {above:g}" if above > -math.inf else ""
        return wanted or ("a finite number" if finite else "a number") + limit

    if isinstance(found, (bool, np.bool_, str, bytes, complex)) or not hasattr(found, "__float__"):
        raise TypeError(f"{name} must be {words()}; found {shown(found)}.")
    if is_tensor(found) and found.is_meta:  # has no value yet; it is checked again where it is used
        return math.nan
    try:
        number = as_float(found)
    except (TypeError, ValueError):
        shape = np.shape(found)
        what = f"an array of shape {shape}" if shape else shown(found)
        raise TypeError(f"{name} must be {words()}, a single number; found {what}.") from None
    good = number >= least and (number > above or above == -math.inf) and (number < below or below == math.inf)
    if not good or (finite and math.isinf(number)):
        raise ValueError(f"{name} must be {words()}; found {'NaN' if math.isnan(number) else repr(number)}.")
    return number


def check_tail_mass(name: str, found: Any) -> float:
    """Tail mass: a number strictly between 0 and 1."""
    wanted = "a tail mass strictly between 0 and 1 (0.05 means the worst 5 %)"
    number = check_number(name, found, wanted, finite=False)
    if not 0.0 < number < 1.0 and not (is_tensor(found) and found.is_meta):
        hint = ""
        if 1.0 < number < 100.0:  # who writes 95 has a confidence level in mind, of which the tail is the rest
            tail = number if number < 50.0 else 100.0 - number
            hint = f" Did you mean {tail / 100:.6g}, that is the worst {tail:.6g} %?"
        raise ValueError(f"{name} must be {wanted}; found {number!r}.{hint}")
    return number


def check_count(name: str, found: Any, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    wanted = f"a whole number of at least {least}"
    if isinstance(found, (bool, np.bool_)) or not hasattr(found, "__index__"):
        raise TypeError(f"{name} must be {wanted}; found {shown(found)}.")
    if int(found) < least:
        raise ValueError(f"{name} must be {wanted}; found {int(found)}.")
    return int(found)


def check_choice(name: str, found: Any, known: Iterable[Any]) -> Any:
    """One of some values, mostly names; the nearest name is suggested."""
    choices = list(known)
    for choice in choices:
        if type(choice) is type(found) and choice == found:
            return choice
    raise ValueError(
        f"{name} must be one of {', '.join(map(repr, choices))}; found {shown(found)}.{did_you_mean(found, choices)}"
    )


def did_you_mean(found: Any, known: Iterable[Any], cutoff: float = 0.5) -> str:
    """ " Did you mean 'x'?" for the name x among the known ones that is nearest to what was found, if one is near.

    >>> did_you_mean("aapl", ["AAPL", "MSFT"])  # large and small letters are alike
    " Did you mean 'AAPL'?"
    """
    from difflib import get_close_matches  # 10 ms to import, for the rare mistake

    if not isinstance(found, str):
        return ""
    names = [name for name in known if isinstance(name, str)]
    folded = {name.casefold(): name for name in reversed(names)}
    near = get_close_matches(found, names, n=1, cutoff=cutoff)
    near = near or [folded[name] for name in get_close_matches(found.casefold(), folded, n=1, cutoff=cutoff)]
    return f" Did you mean {near[0]!r}?" if near else ""


def check_instance(name: str, found: Any, kind: type[Any], wanted: str, hint: str = "") -> Any:
    """An instance of a class; for the class itself the error says what to write instead."""
    if isinstance(found, kind):
        return found
    if isinstance(found, type) and issubclass(found, kind):
        raise TypeError(f"{name} must be an instance; write {found.__name__}() rather than {found.__name__}.")
    raise TypeError(f"{name} must be {wanted}; found {shown(found)}{hint}.")


# -- arrays -----------------------------------------------------------------------------------------------------------


def as_real(name: str, found: Any, kinds: str = "fiub") -> NDArray[Any]:
    """A rectangular array of real numbers in the floating dtype they have; whole numbers and bools become float64."""
    try:
        array = np.asarray(to_numpy(found))
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers; NumPy says: {error}.") from None
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must hold real numbers; found dtype {array.dtype}.")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Refuse NaN and infinities; the first one is named with its index."""
    # A sum is finite only if every entry is, so one reduction settles the usual case without a mask of the same size.
    # The slow look follows only when it is not, which also covers a sum of finite entries that overflowed.
    if array.size <= _SHORT:
        settled = np.isfinite(array).all()
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            settled = np.isfinite(np.add.reduce(array, axis=None))
    if settled:
        return
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise ValueError(f"{name} must be finite; found {array[tuple(bad[0])]} at [{where}]. Drop or fill it first.")


def check_array(name: str, found: Any, ndim: int = 1, size: int | None = None) -> FloatArray:
    """A vector (of the given size) or a matrix, finite and not empty, as float64; copied only where it must be."""
    array = as_real(name, found)
    if array.ndim != ndim:
        wanted = "a vector" if ndim == 1 else "a matrix, one row per sample"
        raise ValueError(f"{name} must be {wanted}; found an array of shape {array.shape}.")
    if size is not None and array.size != size:
        raise ValueError(f"{name} must have {size} entries; found {array.size}.")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); at least one sample and one column are needed.")
    floats: FloatArray = array.astype(np.float64, copy=False)
    check_finite(name, floats)
    return floats


def check_points(name: str, x: Any) -> Any:
    """Points (..., d), finite, as float64 arrays or tensors: whichever they were."""
    if is_tensor(x):
        return _tensor_points(name, x)
    array = as_real(name, x, "fiu").astype(np.float64, copy=False)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1; found shape {array.shape}.")
    check_finite(name, array)
    return array


def _tensor_points(name: str, x: Any) -> Any:
    import torch

    if x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"{name} must hold real numbers; found dtype {x.dtype}.")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1; found shape {tuple(x.shape)}.")
    try:
        finite = bool(torch.isfinite(x.detach()).all())
    except RuntimeError:
        # Inside vmap a value cannot be looked at. NaN and infinity then come out as NaN, through the attached
        # derivative term x - detach(x).
        finite = True
    if not finite:
        check_finite(name, np.asarray(x.detach().double().cpu().numpy()))
    return x.to(torch.float64)


def check_bound(name: str, found: Any, infinite: float | None = None) -> float | FloatArray:
    """A number, or a private read-only vector; ``infinite`` is the one infinity allowed (-inf or inf)."""
    array = as_real(name, found, "fiu")
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a vector of shape (d,); found shape {array.shape}.")
    bad = ~np.isfinite(array) if infinite is None else ~(np.isfinite(array) | (array == infinite))
    if bad.any():
        index = int(np.argmax(bad))
        allowed = "finite" if infinite is None else f"finite or {infinite}"
        raise ValueError(f"{name} must be {allowed}; found {array.flat[index]} at index {index}.")
    return float(array) if array.ndim == 0 else frozen(array)


def frozen(array: NDArray[Any]) -> FloatArray:
    """A private read-only copy."""
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


# -- weights of samples -----------------------------------------------------------------------------------------------


def check_weights(name: str, found: Any, count: int) -> FloatArray:
    """One weight per sample: finite, not negative, not all 0."""
    array = as_real(name, found)
    if array.shape != (count,):
        what = array.size if array.ndim == 1 else f"shape {array.shape}"
        raise ValueError(f"{name} must have one entry per sample, {count}; found {what}.")
    weights: FloatArray = array.astype(np.float64, copy=False)
    check_finite(name, weights)
    if weights.min() < 0.0:
        raise ValueError(f"{name} must not be negative; found {weights.min():g} at [{int(weights.argmin())}].")
    if not weights.max() > 0.0:
        raise no_weight(name)
    return weights


def check_weight_sums(low: float, total: float, high: float) -> None:
    """Refuse weights whose least is ``low``, greatest ``high`` and sum ``total``."""
    if not math.isfinite(total) or math.isnan(low) or math.isinf(high):
        raise ValueError("weights must be finite; found NaN or infinity.")
    if low < 0.0:
        raise ValueError(f"weights must not be negative; found {low:g}.")
    if total <= 0.0:
        raise no_weight()


def no_weight(name: str = "weights") -> ValueError:
    """The error for weights that are all 0."""
    return ValueError(f"{name} must not sum to 0; found zero for every sample.")


def probabilities(weights: FloatArray) -> FloatArray:
    """Weights divided by their sum; the sum of large weights may not be a number, that of their ratios is one."""
    ratios = weights / weights.max()
    return np.asarray(ratios / ratios.sum())
