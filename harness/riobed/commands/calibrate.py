# SPDX-License-Identifier: Apache-2.0
"""`riobed calibrate`: find for each fault class the dose at which half of the runs crash, for the spec.

Each stage of the search is a campaign in a store of its own, so a calibration that was stopped goes on where
it was, and its rows, logs and tables are those of any campaign.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text
from riobed_results.files import write_whole
from riobed_results.store import CONTROLS, TrialRow, crashed, judged, open_store, read_results

from riobed.commands.run import Where, beside, run_spec
from riobed.commands.table import new_table, printed
from riobed.commands.trial_line import columns
from riobed.errors import UsageError
from riobed.plan import CampaignSpec, load_spec
from riobed.plan.dose import MOST, Estimate, Stage, estimate, next_dose, stage_spec
from riobed.plan.spec import PAPER_FAULTS
from riobed.yamltext import parse_yaml

_NOTE = "# By riobed calibrate"
# The key with its value, which may be indented lines, and our own note before it.
_FAULTS = re.compile(rf"^(?:{_NOTE}.*\n)?faults:.*\n?(?:[ \t]+.*\n?)*", re.MULTILINE)


@dataclass(frozen=True)
class Search:
    """How a calibration searches: in one mode, `trials` of a class in each of up to `stages` stages.

    No dose is above `most`. With `from_spec` a class begins with the spec's own dose, not with the paper's.
    """

    mode: str | None = None
    trials: int = 16
    stages: int = 6
    most: int = MOST
    from_spec: bool = False


def calibrate(path: Path, store: str | None, where: Where, search: Search, output: Path | None) -> None:
    """Calibrate the doses of the spec in `path`; write it to `output`, by default to the same file.

    Rows go to `store`, by default a folder named after the campaign. Raises what run_spec() raises.
    """
    spec = load_spec(path)
    mode = search.mode or spec.modes[0]
    if mode not in spec.modes:
        raise UsageError(f"calibrate: {mode!r} is none of the spec's modes: {', '.join(spec.modes)}")
    # An error now, not after hours.
    with_doses(read(path), {}, "", path)
    store = store or f"campaigns/{spec.name}-dose"
    stages = run_stages(spec, mode, store, where, search)
    if not stages:
        raise UsageError(f"spec {path}: fault_classes: there are only controls, which have no dose")
    found = {name: estimate(of_class, search.most) for name, of_class in stages.items()}
    write_whole(beside(store, "doses.json"), summary(spec, mode, search, stages, found).encode())
    said = f"mode {mode}, seed {spec.seed}, {search.trials} trials a stage"
    text = with_doses(read(path), {name: each.dose for name, each in found.items()}, said, path)
    write_whole(output or path, text.encode())
    console = Console()
    console.print(table(stages, found, columns(console.file)), end="", markup=False, highlight=False)
    console.print(f"Doses written to {output or path}, how they came to {beside(store, 'doses.json')}")


def run_stages(
    spec: CampaignSpec, mode: str, store: str, where: Where, search: Search
) -> dict[str, list[Stage]]:
    """Run the stages, or those that are missing; return them by fault class."""
    stages: dict[str, list[Stage]] = {name: [] for name in spec.fault_classes if name not in CONTROLS}
    firsts = {name: spec.fault_count(name) if search.from_spec else PAPER_FAULTS for name in stages}
    for number in range(search.stages):
        due = {name: next_dose(each, search.most, firsts[name]) for name, each in stages.items()}
        doses = {name: dose for name, dose in due.items() if dose}
        if not doses:
            break
        stage = stage_spec(spec, mode, number, doses, search.trials)
        run_spec(stage, store, None, where)
        rows = read_results(open_store(store), stage.name, faults=False).rows
        for name, dose in doses.items():
            stages[name].append(count([row for row in rows if row.fault_class == name], dose))
    return stages


def count(rows: list[TrialRow], dose: int) -> Stage:
    """Return the stage that these rows of a class are."""
    return Stage(dose, sum(map(crashed, rows)), sum(map(judged, rows)))


def read(path: Path) -> str:
    """Return the text of a spec that was loaded before; UsageError if it is gone."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"spec {path}: {error.strerror}; the doses are in doses.json") from None


def with_doses(text: str, doses: Mapping[str, int], said: str, path: Path) -> str:
    """Return a spec's text with these `faults`; comments and all other keys stay as they are.

    UsageError if the text is written in a way that this cannot change.
    """
    lines = [f"{_NOTE}: half of the runs crash ({said}).", "faults:"]
    block = "\n".join([*lines, *(f"  {name}: {dose}" for name, dose in doses.items())]) + "\n"
    changed, found = _FAULTS.subn(lambda _: block, text, count=1)
    if not found:
        changed = text.rstrip("\n") + "\n" + block
    was, now = parse_yaml(text, f"spec {path}"), parse_yaml(changed, f"spec {path}")
    if now != was | {"faults": dict(doses) or None}:
        raise UsageError(f"spec {path}: faults: cannot be replaced; write it as a key on a line of its own")
    return changed


def summary(
    spec: CampaignSpec,
    mode: str,
    search: Search,
    stages: Mapping[str, list[Stage]],
    found: Mapping[str, Estimate],
) -> str:
    """Return all that was found, as JSON."""
    classes = {
        name: {**asdict(found[name]), "stages": [asdict(stage) for stage in of_class]}
        for name, of_class in stages.items()
    }
    how = {"campaign": spec.name, "seed": spec.seed, **asdict(search), "mode": mode}
    return json.dumps(how | {"classes": classes}, indent=1) + "\n"


def table(stages: Mapping[str, list[Stage]], found: Mapping[str, Estimate], width: int) -> str:
    """Return the doses as a table: what was found, and what each stage saw."""
    shown = new_table("fault class", "faults", "half of the runs at", "crashed of runs, at faults")
    for name, each in found.items():
        known = each.half is not None
        half = f"{each.half:.1f} ({each.low:.1f} to {each.high:.1f})" if known else "not known"
        tried = ", ".join(f"{stage.crashes} of {stage.runs} at {stage.dose}" for stage in stages[name])
        shown.add_row(*map(Text, (name, str(each.dose), half, tried)))
    return printed(shown, width)
