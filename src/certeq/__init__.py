"""certeq: optimized certainty equivalents, estimated and minimised from samples."""

from certeq.utilities import *  # noqa: F403
