"""The documentation site: `make docs`. Pages that can be told from the code are written anew at each build."""

import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
logging.getLogger("alembic").setLevel(logging.WARNING)
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Commands that a notebook runs print tables and no progress bars, as wide as a page.
os.environ.update(TTY_COMPATIBLE="0", COLUMNS="90")

from _pages import drawings, tables, write_generated  # noqa: E402

import parley  # noqa: E402

project = "Parley"
author = "Parley's authors"
version = release = parley.__version__

extensions = ["myst_nb"]
exclude_patterns = ["_build", "_pages", "reproduction", "**/.ipynb_checkpoints"]
smartquotes = False  # two dashes of an option stay two dashes

# Markdown as GitHub shows it; `linkify` and math stay off, so that a page never asks another host for anything.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_in_temp = True
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = "Parley"
html_static_path = ["_static", "../src/parley/dashboard/static/fonts"]
html_css_files = ["site.css"]
html_favicon = "../src/parley/dashboard/static/icon.svg"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#0b5563", "color-brand-content": "#0b5563"},
    "dark_css_variables": {"color-brand-primary": "#7ccad8", "color-brand-content": "#7ccad8"},
}


def setup(app):
    app.connect("builder-inited", lambda app: write_generated(Path(app.srcdir)))
    app.connect("source-read", drawings.draw_diagrams)
    app.connect("source-read", tables.show_tables)
