"""The command and its subcommands: one module each, listed here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from inspect import cleandoc
from typing import Annotated

import typer

from certeq.cli import _compare, _estimate, _portfolio, _reproduce, _utilities

app = typer.Typer(
    name="certeq",
    help="Risk measures: estimate them with confidence intervals, minimize them with a certified optimality gap.\n\n"
    "Without a file the portfolio commands use the S&P 500 panel that comes with skfolio.",
    epilog="Exit codes: 0 all went well, 1 bad data or a failed computation, 2 bad usage.",
    no_args_is_help=True,
    rich_markup_mode=None,  # names and messages come from files; brackets in them are not markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _module in (_estimate, _portfolio, _compare, _reproduce, _utilities):
    _lines = "\n".join(f"  {line}" for line in _module.EXAMPLES)
    # A line of \b alone keeps the paragraph after it as it is written.
    _help = f"{cleandoc(_module.run.__doc__ or '')}\n\n\b\nExamples:\n{_lines}"
    app.command(
        _module.NAME,
        help=_help,
        short_help=_module.SUMMARY,
        epilog=_module.AFTER_OPTIONS or None,
        no_args_is_help=_module.NEEDS_FILE,
    )(_module.run)


def _show_version(wanted: bool) -> None:
    if wanted:
        from certeq.risk.solvers import AVAILABLE  # here: help must not wait for it

        try:
            print(f"certeq {version('certeq')} ({'compiled' if AVAILABLE else 'not compiled: NumPy alone'})")
        except PackageNotFoundError:
            print("certeq (not installed)")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...
