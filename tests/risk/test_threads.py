"""Work spread over threads: the same answers in the same order, errors come through, nothing keeps running."""

from __future__ import annotations

import threading
import time

import pytest

from certeq._threads import run_all


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setenv("CERTEQ_NUM_THREADS", "3")


def test_results_come_in_the_order_of_the_items_and_the_caller_works_too():
    seen = set()

    def task(item: int) -> int:
        seen.add(threading.current_thread().name)
        time.sleep(0.001)
        return item * item

    assert run_all(task, range(50), parallel=True) == [item * item for item in range(50)]
    assert threading.current_thread().name in seen
    assert len(seen) > 1


@pytest.mark.parametrize("bad", [0, 1, 37])
def test_an_error_in_any_thread_reaches_the_caller_and_stops_the_others(bad):
    begun = []

    def task(item: int) -> None:
        begun.append(item)
        if item == bad:
            raise ZeroDivisionError(item)
        time.sleep(0.002)

    with pytest.raises(ZeroDivisionError, match=str(bad)):
        run_all(task, range(1000), parallel=True)
    count = len(begun)
    assert count < bad + 100
    time.sleep(0.02)
    assert len(begun) == count  # nobody reads the caller's memory any more


def test_work_within_work_and_from_several_callers_at_once_ends():
    def inner(item: int) -> int:
        return sum(run_all(lambda k: k + item, range(20), parallel=True))

    wanted = [190 + 20 * item for item in range(20)]
    answers: list[list[int]] = []
    callers = [
        threading.Thread(target=lambda: answers.append(run_all(inner, range(20), parallel=True))) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=30)
    assert answers == [wanted] * 4
