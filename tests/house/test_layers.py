"""Every test runs in some target, and `.ci/run` runs them all."""

import re
import tomllib

from tests.house.importers import SRC

ROOT = SRC.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_layer_has_a_target_that_ci_runs_and_make_test_leaves_it_out():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    layers = [marker.partition(":")[0] for marker in options["markers"]]
    assert re.search(r"^LAYERS := (.*)$", MAKEFILE, flags=re.MULTILINE)[1].split() == layers
    rules = re.search(r"^RULES := (.*)$", MAKEFILE, flags=re.MULTILINE)[1]
    assert rules == " and ".join(f"not {layer}" for layer in layers)
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    called = re.findall(r"^make ([a-z-]+)(?: \|\| make again LAYER=[a-z]+)?$", run, flags=re.MULTILINE)
    assert called == ["test", *(f"test-{layer}" for layer in layers), "installs", "docs"]


def test_every_target_says_what_it_is_for_and_is_phony():
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)[1].split()
    explained = re.findall(r"^([a-z-]+):.*##", MAKEFILE, flags=re.MULTILINE)
    assert sorted(explained) == sorted(phony)
