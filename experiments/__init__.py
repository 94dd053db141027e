"""The experiments of the paper: a module for each table or figure, run by ``python -m experiments``."""
