"""What is written: for each experiment its tables, figures and `result.json`, and the page that joins them."""

from certeq.paper._output._folder import tally, write_failure, write_outcome
from certeq.paper._output._index import write_index

__all__ = ["tally", "write_failure", "write_index", "write_outcome"]
