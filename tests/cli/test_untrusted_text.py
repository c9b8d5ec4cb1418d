"""Names and answers come from others: no terminal, spreadsheet or link does what they say."""

import csv
import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.text import Text

import parley
from parley.cli.console import SafeConsole, show_table, write_secret
from parley.cli.main import main
from parley.errors import InvalidInput
from parley.experiments.report_kit.tables import Table
from parley.system.files import write_whole
from parley.text.formatting import csv_safe

SOURCE = Path(parley.__file__).parent
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eLyon\r"


def test_no_escape_of_a_name_or_an_answer_reaches_a_terminal(monkeypatch):
    written = io.StringIO()
    console = SafeConsole(file=written, force_terminal=True, width=200, markup=False, emoji=False)
    monkeypatch.setattr("parley.cli.console.screen", console)
    console.print(f"{EVIL}: drawing", highlight=False, soft_wrap=True)
    console.print(Text(f"{EVIL}: ATTENTION", style="bold red"), soft_wrap=True)
    show_table(EVIL, ["arm", EVIL], [[EVIL, "1"]])
    shown = written.getvalue()
    for harm in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e", "\r"):
        assert harm not in shown
    assert "\\x1b]0;owned" in shown, "it is spelled out"
    assert "\x1b[1;31m" in shown, "our own colours stay"


def test_nor_through_an_error(tmp_path):
    (tmp_path / "evil.toml").write_text('name = "s"\narms = ["a", "b"]\nagents = ["x"]\nkind = "\\u001b[2J"\n')
    found = CliRunner().invoke(main, ["simulate", str(tmp_path / "evil.toml")])
    assert "\x1b[2J" not in found.output


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", EVIL])
def test_no_cell_of_a_csv_is_a_formula_or_a_command(name):
    (_, (cell,)) = csv.reader(io.StringIO(Table.of_text("t", ["name"], [[name]]).csv()))
    assert cell == csv_safe(name)
    assert cell[:1] not in ("=", "+", "-", "@", "\t")
    assert cell.isprintable() or cell[1:2] == "\t"


def test_every_csv_is_written_through_the_one_helper():
    """It escapes what it writes. What a workbook becomes is read here again at once, and goes nowhere."""
    writing = [path for path in SOURCE.glob("**/*.py") if re.search(r"csv\.(Dict)?[wW]riter", path.read_text())]
    assert sorted(path.name for path in writing) == ["formatting.py", "workbooks.py"]
    helper = (SOURCE / "text" / "formatting.py").read_text()
    assert helper.count("csv_safe") >= helper.count("csv.DictWriter") + helper.count("csv.writer")


def test_a_token_is_not_written_through_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "token"
    target.write_text("precious")
    link.symlink_to(target)
    with pytest.raises(InvalidInput, match="a link"):
        write_secret(str(link), "secret")
    assert target.read_text() == "precious"


def test_nor_is_the_file_beside_it(tmp_path, monkeypatch):
    """The name under which a file is written first can be foreseen."""
    monkeypatch.setattr("os.getpid", lambda: 7)
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "token.7.partial").symlink_to(target)
    write_whole(tmp_path / "token", "secret")
    assert target.read_text() == "precious"
    assert (tmp_path / "token").read_text() == "secret"
