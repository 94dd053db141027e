"""Files as tables, for the commands: what is there, which columns it has, and which of them may hold losses."""

from certeq.data._losses import only_column
from certeq.data._numbers import Written, parse
from certeq.data._tables import (
    EXCEL,
    PARQUET,
    TABLES,
    check_file,
    check_width,
    column_names,
    decimal_of_file,
    encoding_of,
    exact_floats,
    first_rows,
    is_excel,
    is_text,
    listed,
    missing_column,
    parquet_file,
    separator_of,
    suffix_of,
)

__all__ = [
    "EXCEL",
    "PARQUET",
    "TABLES",
    "Written",
    "check_file",
    "check_width",
    "column_names",
    "decimal_of_file",
    "encoding_of",
    "exact_floats",
    "first_rows",
    "is_excel",
    "is_text",
    "listed",
    "missing_column",
    "only_column",
    "parquet_file",
    "parse",
    "separator_of",
    "suffix_of",
]
