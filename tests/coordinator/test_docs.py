"""What the docs of the coordinator list is what there is; `tests/tools/test_generated.py` compares the tables."""

from pathlib import Path

from tools.generated import answers, every_answer, keys
from tools.pages import read

from parley.coordinator.http.operations import COORDINATOR, OPERATIONS

# What is sent as it is stored, byte for byte, or goes on and on; receipt and time stamp have the protocol's form.
AS_STORED = {"get_document", "get_plan", "get_decision", "get_certificate", "export_log", "put_report", "add_stamp"} | {
    "follow_study", "follow_studies", "metrics",
}  # fmt: skip


def test_every_answer_is_a_class_that_openapi_lists():
    found, schemas = answers()
    assert {name for name, (_, kind) in found.items() if kind is None} == AS_STORED
    for kind in every_answer():
        if kind.__name__ in schemas:
            assert list(schemas[kind.__name__]["properties"]) == keys(kind)


def test_every_json_answer_has_its_schema():
    """A generated client gets a class of each, also of what is answered as it is stored."""
    document = COORDINATOR.document(OPERATIONS)
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            for status, answer in described["responses"].items():
                schema = answer["content"].get("application/json", {}).get("schema")
                assert schema is None or schema["$ref"].rpartition("/")[2] in document["components"]["schemas"], (
                    f"{method} {path} {status} has no schema"
                )


def test_every_body_is_explained():
    docs = Path(__file__).parents[2] / "docs"
    page, appendix = (docs / "api.md").read_text("utf-8"), read(docs / "appendix" / "api.md")
    table = page.partition("\n## Bodies\n")[2].partition("\n## ")[0]
    table += appendix.partition("\n## Bodies of acts\n")[2].partition("\n## ")[0]
    last = {row.path: row.path.rpartition("/")[2] for row in OPERATIONS if row.body is not None}
    missing = [path for path, part in last.items() if f"/{part}`" not in table and f"`{part}`" not in table]
    assert not missing, f"docs/api.md, “Bodies”: no row of {', '.join(missing)}"
