"""A new page is its file with its routes and its tab, its template and its name in the registry."""

ARMS = '''"""The arms of a study by name."""

from __future__ import annotations

from starlette.responses import Response

from parley.dashboard.pages.study import heading
from parley.dashboard.session import Page, page

__all__ = ["routes"]


async def arms_page(shown: Page) -> Response:
    """Every arm."""
    return await shown.show("arms.html", tab="Arms", **await heading(shown))


routes = [page("/studies/{study}/arms", arms_page, tab="Arms")]
'''
TEMPLATE = """{% extends "study_base.html" %}
{% block body %}<ul id="arms">{% for name in status.arm_names %}<li>{{ name }}</li>{% endfor %}</ul>{% endblock %}
"""


def test_a_page_is_three_files(product):
    product.new("dashboard/pages/arms.py", ARMS)
    product.new("dashboard/templates/arms.html", TEMPLATE)
    before = "from parley.dashboard.pages import (\n    access,\n    administration,\n    answer,\n"
    product.put("dashboard/pages/__init__.py", "    arms,\n", after=before)
    product.put("dashboard/pages/__init__.py", "arms, ", after="PAGES = (")
    assert len(product.touched) == 3
    product.run("tests.recipes.page", str(product.folder))
