"""What a check comes back with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One erratum, examined: where it stands, what is right, what was printed, what was found.

    ``holds`` says whether the correction stood up to the check and the printed form, where it is wrong, failed it. It
    is None where the check could not be made for want of data, and ``found`` then says of which. ``stands`` marks a
    printed statement that is true as far as it goes: loose, or silent about something.
    """

    where: str
    right: str
    printed: str
    found: str
    holds: bool | None
    stands: bool = False
