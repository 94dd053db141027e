"""What speaks against the point of a run: batches that hardly show the risk, and a run that has not settled."""

from __future__ import annotations

from certeq.optimize.sg._accelerated import Correction

# Measured on squared errors under entropic risk with averaged steps: above it an error below 1 %, from it down more.
_LEAST = 2.0  # samples of a batch that carry the risk, on average
_NEAR = 0.01  # of the value: a smaller gap leaves no doubt
_ADVICE = "Use a larger batch=, batch='growing' or 'full', or another method where one applies (method='auto')."


def is_certified(value: float, gap: float | None) -> bool:
    """Say whether the gap proves the point to be near the minimum, whatever speaks against it."""
    return gap is not None and gap <= _NEAR * abs(value)


def thin_batches(part: float, m: int, advice: str = _ADVICE) -> tuple[str, ...]:
    """Say that in a batch of m too few samples carry the risk, if so; ``part`` of all do (see `effective_part`)."""
    if part * m >= _LEAST or part > 0.5:  # where most samples count alike, a small batch shows the risk there is
        return ()
    return (
        f"{_carriers(part, m)}; the gradient of a batch is then biased, and the point found may be far from the "
        f"minimum. {advice}",
    )


def unsettled(correction: Correction, value: float, part: float | None, m: int | None) -> tuple[str, ...]:
    """Say that a run with corrected batches has not settled, if so; ``m`` is the batch size, None for all samples."""
    median = correction.unsettled(value)
    if median is None:
        return ()
    found = f"the run has not settled: at its last passes over all samples the value was {median:.4g} on the median, "
    found += f"above {value:.4g} at the best of them; the point found may be far from the minimum."
    if m is None:
        return (f"{found} Use more iterations=, or another method where one applies (method='auto').",)
    return (f"{found}{'' if part is None else f' At that point {_carriers(part, m)}.'} {_ADVICE}",)


def _carriers(part: float, m: int) -> str:
    return f"{100.0 * part:.2g} % of the samples carry the risk, {part * m:.2g} of a batch of {m} on average"
