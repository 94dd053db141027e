"""Data as people bring them: how often returns come, told from their dates."""

from certeq.data._frequency import TRADING_DAYS as TRADING_DAYS
from certeq.data._frequency import Frequency, frequency_of

__all__ = ["Frequency", "frequency_of"]

Frequency.__module__ = __name__  # pickles name the package, whose modules may move
