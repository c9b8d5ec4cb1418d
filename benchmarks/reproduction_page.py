"""Copy the output of `parley reproduce all --out build/reproduction` into the docs: data, figures and tables."""

from __future__ import annotations

import re
import shutil

from tools.pages import fill

from benchmarks.common import ROOT

PAGE = ROOT / "docs" / "appendix" / "reproduction.md"
MADE = ROOT / "build" / "reproduction"


def table(text: str) -> str:
    """The table of an exhibit's page.

    >>> table("# Table 1\\n\\n| a |\\n|---|\\n| 1 |\\n\\nA note.\\n")
    '| a |\\n|---|\\n| 1 |'
    """
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def main() -> None:
    for name in re.findall(r"<!-- ([\w-]+) -->", PAGE.read_text(encoding="utf-8")):
        fill(PAGE, name, table((MADE / f"{name}.md").read_text(encoding="utf-8")))
    for path in (*MADE.glob("*.csv"), *MADE.glob("*.svg")):
        shutil.copy(path, ROOT / "docs" / "reproduction")


if __name__ == "__main__":
    main()
