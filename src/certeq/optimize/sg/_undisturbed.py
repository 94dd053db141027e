"""Functions that are called to learn what they answer, and left as they were: `undisturbed`."""

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

from certeq._backend import is_tensor

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
    found = _ReachableState()
    for function in functions:
        found.look(function)
    restores = found.restores + _global_states()
    try:
        yield found.whole
    finally:
        for restore in restores:
            restore()


class _ReachableState:
    """What can be reached, and how to put each thing back."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}  # the objects are kept alive, so that no id is used again
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
        if isinstance(thing, np.ndarray):
            if thing.nbytes <= _SMALL and thing.flags.writeable:
                self.restores.append(functools.partial(_refill_array, thing, thing.copy()))
            return []
        if is_tensor(thing):
            if thing.numel() * thing.element_size() <= _SMALL:
                self.restores.append(functools.partial(_refill_tensor, thing, thing.detach().clone()))
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
        for container in (thing, getattr(thing, "__dict__", None)):
            if isinstance(container, dict):
                inside += container.values()
                self.restores.append(functools.partial(_refill, container, dict(container)))
            elif isinstance(container, (list, deque, set)):
                inside += container
                self.restores.append(functools.partial(_refill, container, list(container)))
        for kind in type(thing).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(thing, name) and not name.startswith("__"):
                    inside.append(getattr(thing, name))
                    self.restores.append(functools.partial(object.__setattr__, thing, name, getattr(thing, name)))
        return inside


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


def _refill_array(array: np.ndarray, before: np.ndarray) -> None:
    if array.tobytes() != before.tobytes():
        array[...] = before


def _refill_tensor(tensor: Any, before: Any) -> None:
    torch = sys.modules["torch"]
    if not torch.equal(tensor.detach(), before):
        with torch.no_grad():
            tensor.copy_(before)


def _refill(container: Any, before: Any) -> None:
    """Put back the content of a list, a set or a dict, if it is not the same objects."""
    if isinstance(before, dict):
        same = container.keys() == before.keys() and all(container[key] is before[key] for key in before)
    else:
        same = len(container) == len(before) and all(a is b for a, b in zip(container, before, strict=True))
    if not same:
        container.clear()
        (container.extend if isinstance(container, (list, deque)) else container.update)(before)
