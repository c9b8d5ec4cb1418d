"""A module with one importer is a paragraph of that importer, unless it is an entry of a registry."""

from tests.house.importers import importers

from parley.cli.main import COMMANDS
from parley.dashboard.pages import PAGES
from parley.policies import POLICIES
from parley.rewards import MODELS

# Entries of registries: each file is one of many of its kind, and whoever adds another adds a file.
ENTRIES = {
    *(policy.__module__ for policy in POLICIES.values()),
    *(model.__module__ for model in MODELS),
    *(page.__name__ for page in PAGES),
    *COMMANDS.values(),
}
# An edge keeps apart what is imported only when it is used: its way in is imported at every start.
REGISTRIES = ("parley.coordinator.http.routes.", "parley.coordinator.record.migrations.", "parley.edges.")
# The reason why each other one stands alone. A module whose only importer is in a higher room is that room's way in:
# the import directions keep the two apart.
REASONS = {
    "parley.testing.conformance.installed": "pytest collects it: the suites over what is installed",
    "parley.bounds.exact": "exact bounds for 0/1 rewards and counts: a proof of its own beside the paper's",
    "parley.cli.admin_changes": "the half of `parley admin` that changes running studies",
    "parley.coordinator.http.operations": "the table of the API's operations: a registry itself",
    "parley.coordinator.record.postgres": "one of two storages, imported only where it is used",
    "parley.dashboard.study_form": "from the inputs of a form to the keys of a file, apart from the page",
    "parley.experiments.report_kit.plots": "`plot()` of a result names it: numeric rooms must not import it",
    "parley.policies.evidence.joint": "one answer of all agents: a proof of its own",
    "parley.policies.evidence.tolerance": "acceptance within a tolerance: a proof of its own",
    "parley.service.forecasts": "the operations that simulate, apart from the process that serves them",
    "parley.site.pages": "the pages of a site, apart from its API",
    "parley.site.workbooks": "files that strangers made, bounded and read apart from what their rows mean",
}


def single():
    """Module -> its only importer, or none; packages and programs aside."""
    graph = importers()
    aside = ENTRIES | {name.rpartition(".")[0] for name in graph} | {"parley.__main__"}
    alone = {name: next(iter(found), None) for name, found in graph.items() if len(found) < 2 and name not in aside}
    return {
        name: importer
        for name, importer in alone.items()
        if not name.startswith(REGISTRIES) and (importer is None or room(importer) == room(name))
    }


def room(name):
    """The room of a module: the folder below `parley`, and within the coordinator the one below that."""
    return name.split(".")[1 : 3 if name.startswith("parley.coordinator.") else 2]


def test_every_module_with_one_importer_has_a_reason():
    unexplained = {name: importer for name, importer in single().items() if name not in REASONS}
    assert not unexplained, "merge each into its importer, or give a reason:\n" + "\n".join(
        f"{name}: imported by {importer or 'nobody'}" for name, importer in unexplained.items()
    )


def test_no_reason_is_out_of_date():
    assert set(REASONS) <= set(single()), "these have more importers by now"


def test_the_list_of_reasons_is_short():
    assert len(REASONS) <= 12
