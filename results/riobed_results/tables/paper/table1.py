# SPDX-License-Identifier: Apache-2.0
"""Table 1 of the paper, beside a campaign's numbers for the same fault classes and modes.

Chen et al., "The Rio File Cache: Surviving Operating System Crashes", ASPLOS 1996, section 3.3: 50 crashes
of each of 13 fault types on each of three systems.
"""

from pydantic import BaseModel

from riobed_results.stats.two_shares import fisher_p
from riobed_results.store import CellCounts
from riobed_results.tables.framework.render import Grid
from riobed_results.tables.framework.shares import (
    corrupted_share,
    interval_text,
    p_text,
    side_by_side,
    total_text,
)
from riobed_results.text import printable

CRASHES = 50
FAULT_CLASSES = (
    "kernel_text",
    "kernel_heap",
    "kernel_stack",
    "destination_reg",
    "source_reg",
    "delete_branch",
    "delete_random_inst",
    "initialization",
    "pointer",
    "allocation",
    "copy_overrun",
    "off_by_one",
    "synchronization",
)
# Names of the paper's systems by our modes.
SYSTEMS = {
    "write-through": "disk-based",
    "rio": "Rio without protection",
    "rio-protected": "Rio with protection",
}
# Crashes with corruption; cells that are blank in the paper are absent here.
CORRUPTED: dict[str, dict[str, int]] = {
    "write-through": {
        "kernel_text": 2,
        "source_reg": 2,
        "delete_branch": 1,
        "delete_random_inst": 1,
        "off_by_one": 1,
    },
    "rio": {
        "kernel_text": 1,
        "kernel_stack": 1,
        "delete_branch": 1,
        "pointer": 1,
        "copy_overrun": 4,
        "off_by_one": 2,
    },
    "rio-protected": {"kernel_stack": 1, "delete_branch": 1, "initialization": 1, "off_by_one": 1},
}
LEGEND = {
    "Beside the paper": "corruptions of crashes, here and in table 1 of Chen et al., ASPLOS 1996 (50 "
    "crashes of each fault class), for the fault classes and modes that both have. How long a crash is "
    "waited for and where faults may be is what the campaign's spec says, not the paper.",
    "paper": "its systems: " + "; ".join(f"{name} for {mode}" for mode, name in SYSTEMS.items()) + ".",
    "Fisher's p, paper": "whether the totals differ. Where classes have not equally many crashes, a total "
    "mixes them otherwise than the paper's.",
}

# CellCounts by fault class and mode.
Cells = dict[str, dict[str, CellCounts]]


class Beside(BaseModel):
    """Cells that both have: `here`, `paper` by fault class and mode; `fisher_p` compares totals by mode."""

    modes: list[str]
    fault_classes: list[str]
    here: Cells
    paper: Cells
    fisher_p: dict[str, float | None]


def paper_counts(mode: str, fault_class: str) -> CellCounts:
    """Return a cell of the paper's table 1; KeyError if it has no such mode."""
    corrupted = CORRUPTED[mode].get(fault_class, 0)
    return CellCounts(trials=CRASHES, crashes=CRASHES, corrupted=corrupted)


def beside_paper(cells: Cells, modes: list[str]) -> Beside | None:
    """Pair the campaign's `cells` (by fault class and mode) with the paper's; None if none match."""
    modes = [mode for mode in modes if mode in SYSTEMS]
    classes = [name for name in cells if name in FAULT_CLASSES]
    if not modes or not classes:
        return None
    here = {name: {mode: cells[name][mode] for mode in modes} for name in classes}
    paper = {name: {mode: paper_counts(mode, name) for mode in modes} for name in classes}
    return Beside(
        modes=modes,
        fault_classes=classes,
        here=here,
        paper=paper,
        fisher_p={mode: fisher_p(side_by_side(total(here, mode), total(paper, mode))) for mode in modes},
    )


def total(cells: Cells, mode: str) -> CellCounts:
    """Return the sum over the fault classes."""
    return sum((by_mode[mode] for by_mode in cells.values()), CellCounts())


def paper_grid(beside: Beside) -> Grid:
    """Return a grid with two columns per mode: the campaign's and the paper's."""
    sides = [(cells, mode) for mode in beside.modes for cells in (beside.here, beside.paper)]
    totals = [total(cells, mode) for cells, mode in sides]
    head = [name for mode in beside.modes for name in (printable(mode), "paper")]
    return Grid(
        "Beside the paper",
        ["Fault class", *head],
        [
            [printable(name), *(_text(cells[name][mode]) for cells, mode in sides)]
            for name in beside.fault_classes
        ],
        [
            ["Total", *map(total_text, totals)],
            ["95 % interval", *(interval_text(corrupted_share(counts)) for counts in totals)],
            ["Fisher's p", *(cell for mode in beside.modes for cell in (p_text(beside.fisher_p[mode]), ""))],
        ],
    )


def _text(counts: CellCounts) -> str:
    return f"{counts.corrupted} of {counts.crashes}"
