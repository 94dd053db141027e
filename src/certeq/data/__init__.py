"""Data as people bring them: prices and losses from files, and how often returns come, told from their dates."""

from certeq.data._frequency import TRADING_DAYS as TRADING_DAYS
from certeq.data._frequency import Frequency, frequency_of
from certeq.data._losses import LossData, read_losses
from certeq.data._prices import LEAST_ROWS as LEAST_ROWS
from certeq.data._prices import PriceData, read_prices
from certeq.data._tables import BadData

__all__ = ["BadData", "Frequency", "LossData", "PriceData", "frequency_of", "read_losses", "read_prices"]

for _kind in (BadData, Frequency, LossData, PriceData):
    _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind
