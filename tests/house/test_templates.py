"""Every environment of templates refuses a name that nothing defines, and every template is one that it can read."""

import ast

import pytest
from jinja2 import StrictUndefined, UndefinedError
from tests.house.importers import SRC, modules, nodes

from parley.dashboard import render
from parley.experiments.report_kit import pages
from parley.hooks import own_edges

FOLDERS = sorted(path for path in (SRC / "parley").rglob("templates") if path.is_dir())
# Who makes environments, and how one is had for a folder of templates.
MAKERS = {
    "parley.dashboard.render": render.environment,
    "parley.experiments.report_kit.pages": lambda folder: pages._environment(_package(folder)),
}
# Templates of the dashboard, a site, and pages of edges; the others are of the kit of reports.
OF_PAGES = {SRC / "parley" / room / "templates" for room in ("dashboard", "site")} | {
    brought.templates for edge in own_edges() if (brought := edge.pages()) is not None
}


def _package(folder):
    return ".".join(folder.parent.relative_to(SRC).parts)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_a_template_refuses_a_name_that_nothing_defines(folder):
    maker = "parley.dashboard.render" if folder in OF_PAGES else "parley.experiments.report_kit.pages"
    found = MAKERS[maker](folder)
    for environment in (found, found.overlay(autoescape=False)):
        assert issubclass(environment.undefined, StrictUndefined)
        with pytest.raises(UndefinedError):
            environment.from_string("{{ nothing_defines_this }}").render()
    for path in sorted(folder.glob("*.html")):
        assert found.get_template(path.name).filename == str(path)


def test_nobody_else_makes_an_environment():
    made = {"Environment", "Template", "NativeEnvironment", "SandboxedEnvironment"}
    makers = {
        name
        for name, tree in modules("jinja2").items()
        for node in nodes(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == "jinja2" and made & {one.name for one in node.names})
        or (isinstance(node, ast.Import) and "jinja2" in {one.name for one in node.names})
    }
    assert makers == set(MAKERS)
