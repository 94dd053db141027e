"""The gallery's order, and its thumbnails: one panel of the picture, large enough to be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.sorting import FileNameSortKey

# Topics in their order, and in each the scripts, those to begin with first.
TOPICS: dict[str, tuple[str, ...]] = {
    "portfolio": (
        "walk_forward",
        "efficient_frontier",
        "risk_limits",
        "highest_ratio",
        "equal_contributions",
        "tracking",
        "stress_test",
    ),
    "estimation": ("interval_coverage", "dependence", "riskier", "optimizers_curse", "units", "custom_utility"),
    "learning": ("risk_averse_classifier", "regressor_outliers", "uncertainty", "small_batches"),
    "scaling": ("dask", "torchrun"),
    "theory": (
        "seven_utilities",
        "worst_case_weights",
        "dro_view",
        "sg_against_exact",
        "sample_complexity",
        "error_bounds",
    ),
}
# Which panel is the thumbnail where it is not the first.
PANELS = {
    "custom_utility": 1,
    "interval_coverage": 1,
    "risk_averse_classifier": 2,
    "uncertainty": 2,
    "torchrun": 1,
    "error_bounds": 1,
    "seven_utilities": 14,
    "riskier": 1,
}


class Order(FileNameSortKey):  # type: ignore[misc]
    """The scripts of a folder as listed above."""

    def __call__(self, filename: Any) -> Any:
        """Position of a script."""
        return TOPICS[Path(self.src_dir).name].index(Path(filename).stem.removeprefix("plot_"))


def one_panel(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save one panel first, which makes it the thumbnail, and then the picture for the page."""
    import matplotlib.pyplot as plt

    name = Path(variables["src_file"]).stem.removeprefix("plot_")
    for number in plt.get_fignums():
        save_panel(plt.figure(number), name, next(variables["image_path_iterator"]))
    shown: str = matplotlib_scraper(block, variables, settings)
    return shown


def save_panel(figure: Any, name: str, path: str, width: float = 7.0) -> None:
    """The panel with its labels, and nothing of its neighbors; drawn no wider than so many inches, to be legible."""
    panel, size = figure.axes[PANELS.get(name, 0)], figure.get_size_inches()
    wide = _box(figure, panel).width
    if wide > width:
        figure.set_size_inches(size * width / wide)
    figure.savefig(path, bbox_inches=_box(figure, panel).padded(0.08), dpi=160)
    figure.set_size_inches(size)


def _box(figure: Any, panel: Any) -> Any:
    """Where the panel is, in inches: the layout is settled by drawing."""
    figure.canvas.draw()
    return panel.get_tightbbox(figure.canvas.get_renderer()).transformed(figure.dpi_scale_trans.inverted())
