"""Static pages: one layout, light and dark, tables, figures as SVG. No scripts, nothing from another host.

A page is a Jinja template in `templates/`, here or in another package, that extends `page.html`. It inserts tables by
name, and figures as `picture`s.
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
    """Render a whole page; `command` made it, and `package` has the template.

    All values are escaped except tables, pictures and `Markup`.
    """
    return _environment(package).get_template(f"{template}.html").render(title=title, command=command, **values)


def render_text(template: str, *, package: str, filters: Mapping[str, Callable[..., str]], **values: Any) -> str:
    """Render a Markdown template of a package; nothing is escaped."""
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
    made.globals["font"] = base64.b64encode(FONT.read_bytes()).decode("ascii")  # the page may be sent to anybody
    made.globals |= {"plural": plural, "size_text": size_text}
    made.globals["series"] = {name: theme.series for name, theme in THEMES.items()}
    made.filters |= {"number": number, "real": real, "gap": gap, "status_text": status_text}
    made.policies["json.dumps_kwargs"] = {"allow_nan": False}  # JavaScript reads no NaN
    return made


def picture(label: str, draw: Callable[..., Figure], *values: Any) -> Markup:
    """A figure of these values in both themes; the reader's setting shows one."""
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
