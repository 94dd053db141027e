"""Names and arguments that go: they work for a while longer and say what to use instead.

Each states the version that first warned and the one that removes it; a test fails once that version is reached, so
that nothing deprecated is forgotten.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def warn_deprecated(old: str, *, instead: str, since: str, removed_in: str, stacklevel: int = 2) -> None:
    """Warn, at the caller's line, that ``old`` goes: a FutureWarning, which Python shows to users by default.

    Not for changes of a result: those need a new name, or an argument that asks for them.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated(
    ...         "certeq.shortfall",
    ...         instead="certeq.threshold",
    ...         since="0.2",
    ...         removed_in="0.4",
    ...     )
    >>> print(caught[0].message)
    certeq.shortfall is deprecated since 0.2 and will be removed in 0.4; use certeq.threshold.
    """
    text = f"{old} is deprecated since {since} and will be removed in {removed_in}; use {instead}."
    warnings.warn(text, FutureWarning, stacklevel=stacklevel + 1)


def renamed_argument(old: str, new: str, *, since: str, removed_in: str) -> Callable[[_Function], _Function]:
    """Decorate a function whose keyword ``old`` is called ``new`` now.

    >>> @renamed_argument("level", "confidence", since="0.2", removed_in="0.4")
    ... def interval(confidence=0.95):
    ...     return confidence
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     interval(level=0.9)
    0.9
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__name__}() takes {new}; {old} is its old name, and both were given.")
                name = f"{function.__name__}({old}=)"
                warn_deprecated(name, instead=f"{new}=", since=since, removed_in=removed_in)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
