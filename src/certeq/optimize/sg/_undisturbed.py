"""Call somebody's function without leaving a trace: random states, counters and buffers are put back."""

from __future__ import annotations

import functools
import io
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SMALL = 1 << 20  # bytes: a larger array is data to read, not a state to keep
_MOST = 50_000  # objects that are looked at
_INERT = (
    *(int, float, complex, str, bytes, bool, type(None), type, range, slice, np.generic, np.dtype, np.ufunc),
    *(types.ModuleType, types.CodeType, property, staticmethod, classmethod),
)

Restore = Callable[[], None]


@contextmanager
def undisturbed(*functions: Any) -> Iterator[bool]:
    """Put back, at the end, whatever a call of the functions may have changed that can be found from them.

    That is NumPy's, Python's and torch's global random states; and, in what the functions reach by closures, default
    values, attributes and the globals they name: generators, variables, attributes, lists, dicts, sets, and arrays
    and tensors up to 1 MB. The block is told whether that is all: False where an iterator or an open file is
    reached, which cannot be put back, so that the functions must not be called.
    """
    found = _Search()
    for function in functions:
        found.look(function)
    restores = found.restores + _global_states()
    try:
        yield found.whole
    finally:
        for restore in restores:
            restore()


class _Search:
    """What can be reached, and how to put each thing back."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}  # the objects are held, so that no id is used again
        self.restores: list[Restore] = []
        self.whole = True

    def look(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, _INERT) or id(thing) in self.seen:
                continue
            self.seen[id(thing)] = thing
            if len(self.seen) > _MOST:
                self.whole = False
                return
            waiting += self._enter(thing)

    def _enter(self, thing: Any) -> list[Any]:
        """Remember the state of one thing; return what it leads to."""
        torch = sys.modules.get("torch")
        if isinstance(thing, np.ndarray):
            self._array(thing)
            return []
        if torch is not None and isinstance(thing, torch.Tensor):
            self._tensor(thing)
            return []
        restore = _random_state(thing)
        if restore is not None:
            self.restores.append(restore)
            return []
        if isinstance(thing, io.IOBase) or hasattr(type(thing), "__next__"):
            self.whole = False
            return []
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, types.MethodType):
            return [thing.__self__, thing.__func__]
        if isinstance(thing, (types.BuiltinFunctionType, types.MethodWrapperType)):
            return [thing.__self__]  # of rng.normal the generator
        if isinstance(thing, functools.partial):
            return [thing.func, *thing.args, *thing.keywords.values()]
        return self._container(thing)

    def _function(self, function: types.FunctionType) -> list[Any]:
        inside: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            inside.append(content)
            self.restores.append(functools.partial(setattr, cell, "cell_contents", content))
        scope = function.__globals__
        for name in _names(function.__code__):
            if name in scope:
                inside.append(scope[name])
                self.restores.append(functools.partial(_rebind, scope, name, scope[name]))
        return inside

    def _container(self, thing: Any) -> list[Any]:
        inside: list[Any] = []
        if isinstance(thing, (tuple, frozenset)):
            inside += thing
        elif isinstance(thing, (list, deque)):
            inside += thing
            self.restores.append(functools.partial(_refill, thing, list(thing)))
        elif isinstance(thing, dict):
            inside += thing.values()
            self.restores.append(functools.partial(_renew, thing, dict(thing)))
        elif isinstance(thing, set):
            inside += thing
            self.restores.append(functools.partial(_renew, thing, set(thing)))
        own = getattr(thing, "__dict__", None)
        if isinstance(own, dict):
            inside += own.values()
            self.restores.append(functools.partial(_renew, own, dict(own)))
        for kind in type(thing).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(thing, name) and not name.startswith("__"):
                    inside.append(getattr(thing, name))
                    self.restores.append(functools.partial(object.__setattr__, thing, name, getattr(thing, name)))
        return inside

    def _array(self, array: np.ndarray) -> None:
        if array.nbytes <= _SMALL and array.flags.writeable:
            kept = array.copy()

            def restore() -> None:
                if array.tobytes() != kept.tobytes():
                    array[...] = kept

            self.restores.append(restore)

    def _tensor(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        if tensor.numel() * tensor.element_size() <= _SMALL:
            kept = tensor.detach().clone()

            def restore() -> None:
                if not torch.equal(tensor.detach(), kept):
                    with torch.no_grad():
                        tensor.copy_(kept)

            self.restores.append(restore)


def _names(code: types.CodeType) -> set[str]:
    """Names of globals that a function and the functions within it may use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _random_state(thing: Any) -> Restore | None:
    if isinstance(thing, np.random.Generator):
        thing = thing.bit_generator
    if isinstance(thing, np.random.BitGenerator):
        return functools.partial(setattr, thing, "state", thing.state)
    if isinstance(thing, np.random.RandomState):
        return functools.partial(thing.set_state, thing.get_state(legacy=False))
    if isinstance(thing, random.Random):
        return functools.partial(thing.setstate, thing.getstate())
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Generator):
        return functools.partial(thing.set_state, thing.get_state())
    return None


def _global_states() -> list[Restore]:
    states: list[Restore] = [
        functools.partial(np.random.set_state, np.random.get_state(legacy=False)),  # noqa: NPY002  (whose else)
        functools.partial(random.setstate, random.getstate()),
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        states.append(functools.partial(torch.set_rng_state, torch.get_rng_state()))
    return states


def _rebind(scope: dict[str, Any], name: str, value: Any) -> None:
    if scope.get(name) is not value:
        scope[name] = value


def _refill(held: Any, before: list[Any]) -> None:
    if len(held) != len(before) or any(a is not b for a, b in zip(held, before, strict=True)):
        held.clear()
        held.extend(before)


def _renew(held: Any, before: Any) -> None:
    same = len(held) == len(before) and all(
        key in before and (not isinstance(before, dict) or held[key] is before[key]) for key in held
    )
    if not same:
        held.clear()
        held.update(before)
