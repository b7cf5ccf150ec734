# SPDX-License-Identifier: Apache-2.0
"""The cache lines of an NVDIMM that a loss of power takes (harness/emulator/lines.c).

Beside what is in the NVDIMM, a plugin of the emulator keeps what would be there after a loss of power: what
was written back and fenced. Where the two differ, a processor's cache may have written the line back by
itself, or not. So a loss of power keeps or drops each such line by the trial's seed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from riobed.errors import InfraError
from riobed.products import Manifest
from riobed.vm.emulator.plugins import compiled
from riobed.vm.machine import LostLines, MachineConfig, Nvdimm, Plugin

NAME = "lines"
LINE = 64
# struct state of lines.c: the first number in it is the epoch. CONTENT is where the durable content begins.
_EPOCH = 8
_UNKNOWN_FLUSHES = 4 * 8
_CONTENT = 4096
_CHUNK = 1 << 20


def line_plugin(manifest: Manifest, nvdimm: Nvdimm, qemu: Path | None) -> Plugin:
    """Return the plugin for a machine with that NVDIMM and QEMU; EnvironmentFault if it is not to be had."""
    where = (f"nvdimm={nvdimm.path}", f"start={nvdimm.address:x}", f"size={nvdimm.size:x}")
    return Plugin(compiled(manifest, NAME, qemu), NAME, where)


def mark_durable(config: MachineConfig) -> None:
    """Make all of a machine's NVDIMM durable as it is, if its emulator has the plugin. It must not run.

    This is done at power-on, and when a snapshot is taken or restored.
    """
    if not (nvdimm := _watched(config)):
        return
    with nvdimm.path.open("rb") as stored, _state(config).open("r+b") as state:
        state.truncate(_CONTENT + nvdimm.size)
        for at in range(0, nvdimm.size, _CHUNK):
            _write_changed(state, _CONTENT + at, stored.read(_CHUNK))
        _begin_epoch(state)


def lose_lines(config: MachineConfig, seed: int) -> LostLines | None:
    """Keep or drop each line of a paused machine's NVDIMM that is not durable; None without the plugin.

    The canary loses none: a difference there is a stray store, and must be seen.
    """
    # Late: it takes a fifth of a second, and most commands do not need it.
    import numpy as np

    if not (nvdimm := _watched(config)):
        return None
    drawn = np.random.default_rng(seed)
    found = lost = 0
    with nvdimm.path.open("r+b") as stored, _state(config).open("r+b") as state:
        for at, now, durable in _chunks(stored, state, nvdimm.used):
            lines = np.flatnonzero((now != durable).any(axis=1))
            dropped = lines[drawn.random(len(lines)) < 0.5]
            found, lost = found + len(lines), lost + len(dropped)
            for line in dropped:
                stored.seek(at + int(line) * LINE)
                stored.write(durable[line].tobytes())
        unknown = _number(state, _UNKNOWN_FLUSHES)
    mark_durable(config)
    return LostLines(found, lost, unknown)


def flip_bit(config: MachineConfig, byte: int, bit: int) -> None:
    """Change a bit of a machine's NVDIMM from outside, so that no loss of power takes the change back."""
    if not (nvdimm := config.nvdimm):
        raise InfraError(f"{config.name}: it has no NVDIMM")
    places = [(nvdimm.path, byte)]
    if _watched(config):
        places.append((_state(config), _CONTENT + byte))
    for path, at in places:
        with path.open("r+b") as file:
            file.seek(at)
            old = file.read(1)[0]
            file.seek(at)
            file.write(bytes([old ^ 1 << bit]))


def _watched(config: MachineConfig) -> Nvdimm | None:
    return config.nvdimm if config.plugin and config.plugin.counters == NAME else None


def _state(config: MachineConfig) -> Path:
    return config.folder / NAME


def _begin_epoch(state: Any) -> None:
    """Tell the plugin to forget what it has noted, and count flushes of unknown lines anew."""
    epoch = _number(state, 0)
    for at, value in ((0, epoch + 1), (_UNKNOWN_FLUSHES, 0)):
        state.seek(at)
        state.write(value.to_bytes(_EPOCH, "little"))


def _number(state: Any, at: int) -> int:
    state.seek(at)
    return int.from_bytes(state.read(_EPOCH), "little")


def _write_changed(file: Any, at: int, wanted: bytes) -> None:
    """Write only what differs: both files are in memory, and holes stay holes."""
    file.seek(at)
    if file.read(len(wanted)) != wanted:
        file.seek(at)
        file.write(wanted)


def _chunks(stored: Any, state: Any, size: int) -> Iterator[tuple[int, Any, Any]]:
    import numpy as np

    for at in range(0, size, _CHUNK):
        stored.seek(at)
        state.seek(_CONTENT + at)
        now, durable = (
            np.frombuffer(file.read(min(_CHUNK, size - at)), np.uint8).reshape(-1, LINE)
            for file in (stored, state)
        )
        yield at, now, durable
