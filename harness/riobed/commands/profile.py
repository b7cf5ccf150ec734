# SPDX-License-Identifier: Apache-2.0
"""`riobed profile`: where a mode spends more instructions than another one, by function of the kernel."""

import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError
from rich.console import Console
from riobed_results.store import Provenance
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, render, source_text
from riobed_results.text import printable

from riobed.errors import InfraError, UsageError, complaint
from riobed.guest import (
    CacheMode,
    GuestSetup,
    WorkloadSpec,
    check_mode,
    find_mode,
    guest_setup,
    open_guest,
    provenance,
)
from riobed.measure import measure
from riobed.measure.counter import COUNTERS, counter
from riobed.measure.profile import CodeLocation, profile, text_range
from riobed.vm import COUNTED

_MILLION = 1e6
NOTE = (
    "Millions of instructions of one run, in user mode and in the kernel, each where it was executed, not "
    "where it was called from. Repetitions of string instructions are left out, so a copy of a page counts "
    "as one or a few instructions. A function that the compiler put into another one counts as that one."
)


@dataclass(frozen=True)
class Request:
    """Two modes, shipped or defined in `file`, one workload and its seed, on disks of `disk_mib`."""

    mode: str
    over: str
    file: Path | None
    workload: Path
    seed: int
    disk_mib: int


class ProfileRow(BaseModel):
    """Instructions of a function in one part of the work, in both modes; the name of a whole is empty."""

    function: str
    file: str
    part: str
    over: int
    mode: int


class ProfileTable(BaseModel):
    """The profiles of two modes that did the same work."""

    workload: str
    mode: str
    over: str
    rows: list[ProfileRow]
    environment: Provenance


def profiles(request: Request, uri: str | None) -> ProfileTable:
    """Do the work once in each mode; UsageError and EnvironmentFault as in `riobed bench`."""
    if request.mode == request.over:
        raise UsageError(f"{request.mode}: a profile compares two modes; give another one with --over")
    modes = {name: find_mode(name, request.file).without_checksums() for name in (request.over, request.mode)}
    machine = modes[request.mode].default_machine()
    machine = machine.model_copy(update={"accelerator": "tcg", "disk_mib": request.disk_mib})
    setup = guest_setup(machine, uri, WorkloadSpec(path=request.workload.resolve()))
    if not setup.workload or not setup.workload.measure:
        raise UsageError(f"workload {request.workload}: has no 'measure', a piece of work of fixed size")
    workload, setup = setup.workload.name, replace(setup, accelerator=COUNTED)
    for name, mode in modes.items():
        check_mode(name, mode, setup)
    over, more = (_profile(setup, name, mode, request.seed) for name, mode in modes.items())
    return ProfileTable(
        workload=workload,
        mode=request.mode,
        over=request.over,
        rows=[
            ProfileRow(**place._asdict(), part=part, over=over[part][place], mode=more[part][place])
            for part in more
            for place in sorted({*over[part], *more[part]})
        ],
        environment=provenance(setup, str(request.seed), [request.workload.resolve()], modes),
    )


def _profile(setup: GuestSetup, name: str, mode: CacheMode, seed: int) -> dict[str, Counter[CodeLocation]]:
    kernel = setup.products(mode).kernel
    plugin = counter(setup.manifest, kernel, text_range(kernel))
    with Console(stderr=True).status(f"Profiling {name}"):
        guest = open_guest(setup, mode, f"profile-{name}", plugin=plugin)
        try:
            guest.ready()
            events = measure(guest, seed).events
            parts = list(guest.workload.measured(seed))
            found = profile(guest.machine.config.folder / COUNTERS, kernel, len(parts))
        finally:
            guest.discard()
    if sum(map(Counter.total, found)) != events["instructions"] - events["repetitions"]:
        raise InfraError(f"{name}: the profile does not have as many instructions as were counted")
    return dict(zip(parts, found, strict=True))


def load_profile(path: Path) -> ProfileTable:
    """Read a profile that was written as JSON; UsageError if the file has none."""
    try:
        return ProfileTable.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file of 'riobed profile --format json'") from None
    except ValidationError as error:
        raise UsageError(f"{path}: {complaint(error, 'profile')}") from None


def profile_text(table: ProfileTable, most: int, form: str) -> str:
    """Render the table; for people, with the folders and the `most` functions that differ by most."""
    grids = [
        _grid("folder", table, _folder, len(table.rows)),
        _grid("function", table, lambda row: f"{row.function} {row.file}".strip(), most),
    ]
    what = f"{table.mode} over {table.over}, {table.workload}"
    source = source_text(f"profile of {what}", table.environment)
    head = list(ProfileRow.model_fields)
    lines = (row.model_dump().values() for row in table.rows)
    return render(Page(source, grids, NOTE, csv_text(head, lines), json_text(table)), form)


def _folder(row: ProfileRow) -> str:
    return posixpath.dirname(row.file) or row.function


def _grid(unit: str, table: ProfileTable, name: Callable[[ProfileRow], str], most: int) -> Grid:
    over, mode, more = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for row in table.rows:
        over[name(row)] += row.over
        mode[name(row)] += row.mode
        more[name(row), row.part] += row.mode - row.over
    parts = list(dict.fromkeys(row.part for row in table.rows))
    shown = sorted(mode, key=lambda each: (-abs(mode[each] - over[each]), each))[:most]
    total = mode.total() - over.total()

    def line(label: str, names: list[str]) -> list[str]:
        before, after = (sum(counts[each] for each in names) for counts in (over, mode))
        of_parts = [sum(more[each, part] for each in names) for part in parts if len(parts) > 1]
        share = f"{(after - before) / total:.1%}" if total else ""
        numbers = [f"{count / _MILLION:.2f}" for count in (before, after, *of_parts, after - before)]
        return [printable(label), *numbers, share]

    in_parts = [f"more in {part}" for part in parts if len(parts) > 1]
    head = [unit, table.over, table.mode, *in_parts, "more", "share of more"]
    return Grid(
        f"By {unit} of the kernel", head, [line(each, [each]) for each in shown], [line("Total", list(mode))]
    )
