import json

from tools.second_try import note


def test_what_failed_is_named_and_what_needed_nothing_leaves_no_note(tmp_path):
    file, failed = tmp_path / "notes", tmp_path / "lastfailed"
    assert note(file, failed) == []
    failed.write_text(json.dumps({"tests/b.py::two": True, "tests/a.py::one": True}))
    assert note(file, failed) == ["tests/a.py::one", "tests/b.py::two"]
    failed.write_text(json.dumps({"tests/c.py::three": True}))
    note(file, failed)
    assert file.read_text().splitlines() == ["tests/a.py::one", "tests/b.py::two", "tests/c.py::three"]
