"""`parley plan --report`: the dossier of a protocol, written to a file."""

from dataclasses import replace
from pathlib import Path

from parley.cli.console import checked_output, print_json, progress_bar, screen, write_page
from parley.cli.plan import PlanRequest
from parley.edges.dossier import page
from parley.edges.dossier.dossier import REPLICATIONS, dossier_studies, make_dossier
from parley.errors import InvalidInput
from parley.text.translation import reading


def write_dossier(asked: PlanRequest, report: str, language: str) -> None:
    """Simulate everything that a protocol's dossier needs, and write the dossier to the file `report`."""
    write = page.FORMATS.get(Path(report).suffix.lower())
    if write is None:
        raise InvalidInput("--report", found=report, allowed="a file whose name ends in .html or .md")
    checked_output(report, "--report")
    with reading(asked.study.problem.audience, language):
        pass  # reports a missing catalog now, not after minutes of simulating
    gaps, study = asked.gaps, asked.study
    if gaps and min(gaps) <= 0:
        raise InvalidInput("--gap", found=min(gaps), allowed="above 0: the report has a row of ties anyway")
    planner = asked.planner if asked.replications is not None else replace(asked.planner, replications=REPLICATIONS)
    with progress_bar("simulating studies", dossier_studies(planner, study, gaps), hidden=asked.as_json) as advance:
        counted = replace(planner, progress=advance, announced=advance.announce)
        made = make_dossier(counted, study, gaps)
    lines = Path(asked.file).read_text(encoding="utf-8").splitlines()
    made = replace(made, source=[line for line in lines if line.strip()])
    spoken = "" if language == "en" else f" --language {language}"
    given = spoken + "".join(
        f" --{key} {value:g}" for key, value in [*(("gap", gap) for gap in gaps), *asked.changed.items()]
    )
    same = f"--policy {planner.policy} --replications {planner.replications} --seed {planner.seed}"
    path = write_page(
        report, write(made, f"parley plan {asked.file} --report {report} {same}{given}", language), "--report"
    )
    if asked.as_json:
        named = {"study": study.name, "policy": planner.policy, "seed": planner.seed, "report": str(path)}
        print_json(study.problem.settings() | made.document() | named | {"replications": planner.replications})
        return
    screen.print(f"The dossier of {study.name}: {path.resolve()}", soft_wrap=True)
