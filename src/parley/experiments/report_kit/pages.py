"""Static pages with one layout, a light and a dark theme, tables, and figures as SVG; no scripts or external files.

A page is a Jinja template that extends `page.html`, in the folder `templates/` of this package or of another. Tables,
and figures made by `picture`, are values of the template.
"""

import base64
import io
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from parley.experiments.report_kit.charts import THEMES
from parley.text.formatting import gap, number, plural, real, size_text, status_text
from parley.text.translation import gettext, language, ngettext

FONT = files("parley") / "dashboard" / "static" / "fonts" / "inter.woff2"


KIT = "parley.experiments.report_kit"


def render(template: str, *, title: str, command: str, package: str = KIT, **values: Any) -> str:
    """Render a whole page from a template of a package; the page names the `command` that made it.

    All values are escaped except tables, pictures and `Markup`.
    """
    return _environment(package).get_template(f"{template}.html").render(title=title, command=command, **values)


def render_text(template: str, *, package: str, filters: Mapping[str, Callable[..., str]], **values: Any) -> str:
    """Render a Markdown template of a package; values are not escaped."""
    environment = _environment(package).overlay(autoescape=False)
    environment.filters = environment.filters | dict(filters)
    return environment.get_template(f"{template}.md").render(**values)


@cache
def _environment(package: str) -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(KIT)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
    made.globals |= {"gettext": gettext, "ngettext": ngettext, "language": language}
    # The font is embedded in the page, so that a page sent by mail still has its typeface.
    made.globals["font"] = base64.b64encode(FONT.read_bytes()).decode("ascii")
    made.globals |= {"plural": plural, "size_text": size_text}
    made.globals["series"] = {name: theme.series for name, theme in THEMES.items()}
    made.filters |= {"number": number, "real": real, "gap": gap, "status_text": status_text}
    made.policies["json.dumps_kwargs"] = {"allow_nan": False}  # JavaScript cannot parse NaN
    return made


def picture(label: str, draw: Callable[..., Figure], *values: Any) -> Markup:
    """Draw a figure in both themes as SVG; the page displays the one that matches the reader's setting.

    `draw` is called with `values` and a theme, and `label` describes the figure to screen readers.
    """
    both = Markup("")
    for theme in ("light", "dark"):
        buffer = io.StringIO()
        figure = draw(*values, theme=theme)
        with rc_context({"svg.fonttype": "none"}):  # text stays text, in the page's typeface
            figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
        text = buffer.getvalue()
        drawn = Markup(text[text.index("<svg") :])  # matplotlib escapes what it writes
        both += Markup('<div class="{}">{}</div>').format(theme, drawn)
    return Markup('<figure role="img" aria-label="{}">{}</figure>').format(label, both)
