# SPDX-License-Identifier: Apache-2.0
"""`riobed faults`: list the fault classes, and show what a class would change, without a guest."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from riobed.commands.table import new_table, printed
from riobed.errors import UsageError, complaint
from riobed.faults import CLASSES, Catalogue, Fault, SiteFilter, catalogue_of
from riobed.plan import fault_rng, trial_seed
from riobed.products import load_manifest

_LARGEST_SEED = 2**63 - 1
_TRIAL = re.compile(r"([0-9]{1,19})/([a-z_]+)/([0-9]{1,19})")
_MOST = 10_000  # faults per call; a spec allows 100


def list_classes(as_json: bool, width: int) -> str:
    """List every class with its sites in the checkout's kernel, as JSON or a table of `width` columns."""
    catalogue = _catalogue()
    rows = []
    for fault_class in CLASSES.values():
        row: dict[str, Any] = {
            "name": fault_class.name,
            "category": fault_class.category,
            "summary": fault_class.summary,
            "sites": None,
        }
        if fault_class.sites is not None:
            row["sites"] = asdict(fault_class.sites(catalogue))
        rows.append(row)
    return _json(rows) if as_json else _class_table(rows, width)


def site_filter(
    subsystems: list[str] | None,
    functions: list[str] | None,
    functions_file: Path | None,
    instructions_file: Path | None,
) -> SiteFilter:
    """Make the site filter that the options describe; UsageError if they contradict each other."""
    given = {
        "subsystems": subsystems or None,
        "functions": functions or None,
        "functions_file": functions_file,
        "instructions_file": instructions_file,
    }
    try:
        return SiteFilter.model_validate(given).with_list(Path())
    except ValidationError as error:
        raise UsageError(f"sites.{complaint(error, 'site filter')}") from None


def show_sites(name: str, seed: str, count: int, chosen: SiteFilter, as_json: bool, width: int) -> str:
    """List the faults of trials with that seed: what is changed, where, and why it qualifies."""
    if name not in CLASSES:
        raise UsageError(f"unknown fault class {name!r}; there are: {', '.join(CLASSES)}")
    trial = _trial(name, seed)
    if not 0 <= count <= _MOST:
        raise UsageError(f"--count {count}: want a number from 0 to {_MOST}")
    catalogue = _catalogue().filtered(chosen)
    faults = CLASSES[name].draw(catalogue, fault_rng(trial), count)
    if as_json:
        return _json([{"seed": trial, **_fields(fault)} for fault in faults])
    return _fault_table(faults, f"{name}: faults of trials with seed {trial}", width)


def _trial(name: str, seed: str) -> str:
    """Return a trial's seed, given that or a campaign's seed; UsageError if `seed` is neither."""
    match = _TRIAL.fullmatch(seed)
    if seed.isascii() and seed.isdigit():
        campaign, number = int(seed), 0
    elif match is None:
        raise UsageError(f"--seed {seed}: want a campaign's seed as 1 or a trial's as 1/{name}/0")
    elif match[2] != name:
        raise UsageError(f"--seed {seed}: a trial of {match[2]}, not of {name}; ask for that class")
    else:
        campaign, number = int(match[1]), int(match[3])
    if campaign > _LARGEST_SEED:
        raise UsageError(f"--seed {seed}: a campaign's seed is at most {_LARGEST_SEED}; give a smaller one")
    return trial_seed(campaign, name, number)


def _catalogue() -> Catalogue:
    kernel = load_manifest().kernel
    with Console(stderr=True).status("Reading fault sites of the kernel (about a minute the first time)"):
        return catalogue_of(kernel)


def _fields(fault: Fault) -> dict[str, Any]:
    address = None if fault.address is None else f"{fault.address:#018x}"
    return asdict(fault) | {"address": address, "old": fault.old.hex(), "new": fault.new.hex()}


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=1) + "\n"


def _class_table(rows: list[dict[str, Any]], width: int) -> str:
    table = new_table("name", "category", "what it does", "sites")
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    table.columns[3].justify = "right"
    for row in rows:
        sites = f"{row['sites']['count']} {row['sites']['unit']}" if row["sites"] else ""
        table.add_row(*map(Text, (row["name"], row["category"], row["summary"], sites)))
    return printed(table, width)


def _fault_table(faults: list[Fault], title: str, width: int) -> str:
    table = new_table("", "where", "old and new", "why")
    table.title, table.show_lines = title, True
    for fault in faults:
        where, change = fault.function, ", ".join(f"{k} {v}" for k, v in fault.params.items())
        if fault.address is not None:
            where = f"{fault.function}\n{fault.address:#x}\n{fault.source}"
            change = f"{fault.old_asm}\n{fault.new_asm}\n{fault.old.hex()} {fault.new.hex()}"
        table.add_row(*map(Text, (str(fault.index), where, change, fault.why)))
    return printed(table, width)
