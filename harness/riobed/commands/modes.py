# SPDX-License-Identifier: Apache-2.0
"""`riobed modes`: list the cache modes, without a guest."""

import json
from pathlib import Path

from rich.text import Text

from riobed.commands.table import new_table, printed
from riobed.guest import CacheMode, all_modes, read_modes


def list_modes(file: Path | None, as_json: bool, width: int) -> str:
    """List the shipped modes, then those of a file: a table, or JSON with every key of each mode."""
    modes = all_modes() | (read_modes(file) if file else {})
    if as_json:
        rows = [{"name": name} | mode.model_dump(mode="json") for name, mode in modes.items()]
        return json.dumps(rows, indent=1) + "\n"
    table = new_table("name", "what it is", "data permanent", "file system", "kernel", "devices")
    table.columns[0].no_wrap = True
    for name, mode in modes.items():
        table.add_row(
            *map(
                Text,
                (name, mode.summary, mode.permanent or "", mode.filesystem, _kernel(mode), _devices(mode)),
            )
        )
    return printed(table, width)


def _kernel(mode: CacheMode) -> str:
    if not mode.kernel:
        return ""
    if mode.kernel.bzimage:
        return mode.kernel.bzimage.name
    series = [mode.kernel.series.name] if mode.kernel.series else []
    return ", ".join([*mode.kernel.fragments, *series])


def _devices(mode: CacheMode) -> str:
    disk = "" if mode.cache == "unsafe" else f"cache {mode.cache}"
    given = mode.throttle.model_dump(exclude_none=True) if mode.throttle else {}
    limits = ", ".join(f"{key} {value}" for key, value in given.items())
    more = [f"{device.name} {device.size_mib} MiB" for device in mode.devices]
    more += [f"NVDIMM: {mode.nvdimm}"] if mode.nvdimm else []
    return "; ".join(text for text in (disk, limits, *more) if text)
