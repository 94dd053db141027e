"""A contract for import-linter: a module whose name begins with an underscore is imported within its package only.

``certeq.x._y`` may be imported from anywhere below ``certeq.x``, and from nowhere else; modules directly under
``certeq`` belong to all. import-linter's own contracts ask for a list of modules, which nobody would keep up to date.
"""

from __future__ import annotations

from typing import Any

from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils


class PrivateModules(Contract):
    """``ignore_imports`` lists what is still to be mended; one that no longer occurs is warned of."""

    type_name = "private"
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        removed = contract_utils.remove_ignored_imports(
            graph=graph,
            ignore_imports=self.ignore_imports,
            unmatched_alerting=contract_utils.AlertLevel.WARN,
        )
        broken = sorted(
            (importer, imported)
            for imported in graph.modules
            for importer in graph.find_modules_that_directly_import(imported)
            if not is_allowed(importer, imported)
        )
        return ContractCheck(kept=not broken, warnings=removed, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"{importer} imports {imported}, which is private to {'.'.join(package(imported)[:2])}")


def package(module: str) -> tuple[str, ...]:
    """The part of the name that comes before the first underscored one, or the whole name of a public module."""
    parts = module.split(".")
    private = [k for k, part in enumerate(parts) if k >= 2 and part.startswith("_")]
    return tuple(parts[: private[0]] if private else parts)


def is_allowed(importer: str, imported: str) -> bool:
    """Whether one module may import the other.

    >>> is_allowed("certeq.optimize.exact.solve", "certeq.optimize.losses._base")
    True
    >>> is_allowed("certeq.portfolio._solve", "certeq.optimize.losses._base")
    False
    """
    whole = package(imported)
    return len(whole) == len(imported.split(".")) or importer.split(".")[:2] == list(whole[:2])
