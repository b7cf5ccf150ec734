# SPDX-License-Identifier: Apache-2.0
"""`riobed check`: say of a spec without mistakes by which promise each of its modes is judged."""

import json
from pathlib import Path
from typing import Any

from rich.text import Text

from riobed.commands.table import new_table, printed
from riobed.guest import CacheMode, ModeWorkload
from riobed.guest.workload.description import load_workload
from riobed.plan import load_spec

_PROMISES = {
    "steps": "each step that the workload reported",
    "synced": "what was synced, and states of files since then",
}


def check_spec(spec: Path, as_json: bool, width: int) -> str:
    """Return the promises of a campaign's modes: a table of `width` columns, or JSON.

    UsageError if the spec is wrong.
    """
    campaign = load_spec(spec)
    workload = load_workload(campaign.workload.path)
    rows = [
        _row(name, mode, ModeWorkload(workload, mode, campaign.workload.options))
        for name, mode in campaign.arms.items()
    ]
    if as_json:
        return json.dumps(rows, indent=1) + "\n"
    table = new_table("mode", "judged by", "corrupted if a file is", "or a loss is older than")
    for row in rows:
        window = "" if row["window_s"] is None else f"{row['window_s']:g} s"
        told = (row["mode"], _PROMISES[row["judged_by"]], ", ".join(row["broken"]), window)
        table.add_row(*map(Text, told))
    return printed(table, width)


def _row(name: str, mode: CacheMode, workload: ModeWorkload) -> dict[str, Any]:
    promise = mode.promised if workload.judged_by == "synced" else None
    return {
        "mode": name,
        "judged_by": workload.judged_by,
        "broken": sorted(promise.broken) if promise else ["not as after the last step"],
        "window_s": promise.window_s if promise else None,
    }
