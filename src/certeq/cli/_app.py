"""The command and its subcommands, listed here, one module each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from certeq.cli import print_version

# A module each, which is imported when its command is called: help is a list of names, and need not wait for NumPy.
COMMANDS = {
    "estimate": "Risk of a column, with confidence interval",
    "portfolio": "Portfolio of least risk, with certificate",
    "compare": "Compare strategies on held-out data",
    "utilities": "List the utilities, drawn",
}

_LEAST_WIDTH = 52  # columns from which on help heeds them of itself
_NARROW_NAMES = 10  # columns for the names of options in a narrower terminal: a longer one has a line to itself


def _fit(ctx: Any) -> None:
    """Make help as wide as the terminal: left alone it is never narrower than 50 columns."""
    columns = shutil.get_terminal_size().columns
    if columns >= _LEAST_WIDTH:
        return

    class Narrow(ctx.formatter_class):  # type: ignore[misc]
        def write_dl(self, rows: Any, col_max: int = _NARROW_NAMES, col_spacing: int = 2) -> None:
            super().write_dl(rows, min(col_max, _NARROW_NAMES), col_spacing)

    ctx.terminal_width = columns
    ctx.formatter_class = Narrow


class _Command(typer.core.TyperCommand):
    """A command whose help fits the terminal."""

    def get_help(self, ctx: Any) -> str:
        _fit(ctx)
        return str(super().get_help(ctx))


class _OnDemand(typer.core.TyperGroup):
    """Commands that are known by name and summary until one is called."""

    def get_help(self, ctx: Any) -> str:
        _fit(ctx)
        return str(super().get_help(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(str(name)), rest


def _load(name: str) -> Any:
    module = import_module(f"certeq.cli._{name}")
    lines = "\n".join(f"  {line}" for line in module.EXAMPLES)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(
        name,
        cls=_Command,
        # A line of \b alone keeps the paragraph after it as it is written.
        help=f"{cleandoc(module.run.__doc__ or '')}\n\n\b\nExamples:\n{lines}",
        epilog=module.AFTER_OPTIONS or None,
        no_args_is_help=module.NEEDS_FILE,
    )(module.run)
    command: Any = typer.main.get_command(alone)
    for parameter in command.params:
        parameter.process_value = _telling(parameter.process_value)
    return command


def _telling(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Read a parameter; an error about it says what was found, which those of typer's types and ranges do not."""

    def process_value(ctx: Any, value: Any) -> Any:
        try:
            return read(ctx, value)
        except typer.BadParameter as error:
            if isinstance(value, str):
                error.message = _with_found(error.message, value)
            raise

    return process_value


def _with_found(message: str, value: str) -> str:
    """A message with what was found, and what a number in per cent is as a fraction.

    >>> _with_found("Input should be less than or equal to 0.9", "25")
    "Input should be less than or equal to 0.9; found '25'. 25 % is 0.25."
    """
    if value not in message:
        message = f"{message.rstrip('.')}; found {value!r}."
    number = value.strip().removesuffix("%").strip()
    try:
        share = float(number) / 100.0
    except ValueError:
        return message
    fraction = re.search(r"\b0\.\d", message.partition("; found")[0])
    if "integer" not in message and ("%" in value or (fraction and 0.01 < share <= 1.0)):
        message += f" {number} % is {share:g}."
    return message


app = typer.Typer(
    name="certeq",
    cls=_OnDemand,
    help="Risk measures: estimate them with confidence intervals, minimize them with a certified optimality gap.\n\n"
    "Without a file the portfolio commands use the S&P 500 panel that comes with skfolio.",
    epilog="Exit codes: 0 all went well, 1 bad data or a failed computation, 2 bad usage.",
    no_args_is_help=True,
    rich_markup_mode=None,  # names and messages come from files; brackets in them are not markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _name, _summary in COMMANDS.items():
    app.command(_name, short_help=_summary)(lambda: None)


def _show_version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...
