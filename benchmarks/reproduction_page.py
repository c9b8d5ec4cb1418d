"""Put the tables of `parley reproduce all --out docs/reproduction` into its appendix, between its marks."""

from __future__ import annotations

import re

from benchmarks.common import ROOT

PAGE = ROOT / "docs" / "appendix" / "reproduction.md"
FOLDER = ROOT / "docs" / "reproduction"
MARK = re.compile(r"<!-- ([\w-]+) -->\n.*?<!-- end -->", flags=re.DOTALL)


def table(name: str) -> str:
    lines = (FOLDER / f"{name}.md").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def refreshed(page: str) -> str:
    return MARK.sub(lambda mark: f"<!-- {mark[1]} -->\n{table(mark[1])}\n<!-- end -->", page)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
