# SPDX-License-Identifier: Apache-2.0
"""Importers/Registry: the formats that can be imported."""

from pathlib import Path

from riobed_caches.errors import TraceError
from riobed_caches.importers.cloudphysics import CloudPhysics
from riobed_caches.importers.disksim import DiskSim
from riobed_caches.importers.fiu import Fiu
from riobed_caches.importers.fiu_calls import FiuCalls
from riobed_caches.importers.importer import Importer
from riobed_caches.importers.mobibench import Mobibench
from riobed_caches.importers.msr import Msr
from riobed_caches.importers.nfsdump import Nfsdump
from riobed_caches.importers.sprite import Sprite
from riobed_caches.importers.strace import Strace
from riobed_caches.trace.file import Trace

_ALL: tuple[type[Importer], ...] = (
    Strace,
    Mobibench,
    Nfsdump,
    Sprite,
    FiuCalls,
    Fiu,
    Msr,
    CloudPhysics,
    DiskSim,
)
# By the name of the format. Each says what it reads (`reads`), and what a trace from it has (`has`).
FORMATS: dict[str, type[Importer]] = {importer.name: importer for importer in _ALL}


def import_trace(path: Path, form: str, *, keep_names: bool = False) -> Trace:
    """Make a trace of a file in the format `form`, compressed (gzip, xz, bzip2) or not.

    Raises TraceError if there is no such format, or the file cannot be read, is damaged, or has no event.
    """
    if form not in FORMATS:
        raise TraceError(path, f"no format is named {form!r}", f"name one of {', '.join(FORMATS)}")
    return FORMATS[form](path).trace(keep_names=keep_names)
