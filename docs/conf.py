"""How the site is built: ``make docs``. Nothing here, and nothing on the pages, asks for a network."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]  # the second for the experiments, whose results are shown

import api_pages  # noqa: E402
import panels  # noqa: E402

# Figures are drawn by build processes: no display, and one thread each.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Torch wraps one thing of its own that warns when documented; the examples' own warnings stay visible.
os.environ.setdefault("TQDM_DISABLE", "1")

project = "certeq"
author = "the certeq contributors"
project_copyright = "the certeq contributors"
release = version = installed_version("certeq")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "api_pages",
    "changelog",
    "docstrings",
    "mathml",
    "measured",
    "reproduced",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext", "_data", "figures", "examples", "**/README.md"]
default_role = "py:obj"
nitpicky = True  # a reference that leads nowhere fails the build; those to other libraries are written as literals
root_doc = "index"

# -- the reference, from docstrings ---------------------------------------------------------------------------------
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"  # the signature would be longer than its docstring; types are in the Parameters
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
toc_object_entries_show_parents = "hide"  # the list on the right is narrow, and below the name of the class
numpydoc_show_class_members = False  # the class template lists them itself
# Types of parameters and results are links if they are names of certeq. The aliases keep numpydoc from linking other
# words to Python and NumPy, whose inventories are not fetched.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {word: word for word in DEFAULT_LINKS}
numpydoc_xref_aliases |= {full.rsplit(".", 1)[1]: full for full in api_pages.public_classes().values()}
# Docstrings of the libraries we subclass have their own references and headings.
autodoc_inherit_docstrings = False

# -- pictures and examples ------------------------------------------------------------------------------------------
plot_formats = [("png", 160)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
plot_basedir = str(HERE)

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "subsection_order": [f"examples/{topic}" for topic in panels.TOPICS],
    "within_subsection_order": "panels.Order",
    "image_scrapers": ("panels.one_panel",),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("certeq",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "thumbnail_size": (640, 420),
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 5,
    "write_computation_times": False,
    "plot_gallery": os.environ.get("CERTEQ_DOCS_EXAMPLES", "1") != "0",  # 0 shows the scripts without running them
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "copyfile_regex": r".*\.(csv|json|png)",
}

# -- how it looks ---------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "certeq"
html_static_path = ["_static"]
html_css_files = ["certeq.css"]
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"  # MathML, which every current browser draws: no script to fetch
html_theme_options = {
    "logo": {"image_light": "_static/mark.svg", "image_dark": "_static/mark.svg", "text": "certeq"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 9,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
# Pages of wide tables and long formulas take the width; their sections are listed on the right.
html_sidebars = {page: [] for page in ("index", "comparison", "whatsnew", "paper/*", "theory/*")}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
