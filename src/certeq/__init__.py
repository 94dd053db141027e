"""certeq: optimized certainty equivalents, estimated and minimised from samples."""

from certeq.risk import *  # noqa: F403
from certeq.utilities import *  # noqa: F403
