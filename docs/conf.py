"""How Sphinx makes the site: ``python -m sphinx -W docs docs/_build``. generate.py fills pages."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

from lm_eval_epidemia import __version__

project = "lm-eval-epidemia"
author = "The lm-eval-epidemia authors"
copyright = f"{author}. Apache-2.0"
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autosummary", "numpydoc", "sphinx_design"]
# README.md is the index that GitHub shows.
exclude_patterns = ["_build", "README.md"]
# Notebooks run at every build, each in a folder of its own, with the commands of this environment.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds a cell
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"
suppress_warnings = ["myst-nb.lexer"]  # of notebooks that were not run
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"
smartquotes = False

# Every reference between pages has a target; types of other libraries have none here.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]
default_role = "autolink"
autosummary_generate = True
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "lm-eval-epidemia"
templates_path = ["templates"]
html_context = {"default_mode": "auto"}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"index": []}
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}

# A menu of versions reads a file by its address, which a browser allows on a server only.
if served_at := os.environ.get("DOCS_URL", "").rstrip("/"):
    html_baseurl = f"{served_at}/{version}/"
    html_theme_options |= {
        "switcher": {"json_url": f"{served_at}/versions.json", "version_match": version},
        "check_switcher": False,
        "navbar_end": ["version-switcher", "theme-switcher"],
    }


def setup(app):
    app.connect("builder-inited", generate.write_cards)
    app.connect("source-read", generate.fill)
    app.connect("doctree-read", generate.name_languages)
    app.connect("build-finished", generate.write_llms)
