"""The exact solver where the scenarios do not fit into memory: one summary of all blocks of rows per step."""

from certeq.optimize.exact.blocks.solve import PanelResult, solve_panel

__all__ = ["PanelResult", "solve_panel"]
