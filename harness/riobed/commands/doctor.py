# SPDX-License-Identifier: Apache-2.0
"""`riobed doctor`: what this host has, what is missing, and the command that fixes it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from riobed.errors import RiobedError
from riobed.guest import MIB
from riobed.products import cache_dir, load_manifest
from riobed.vm import find_tool, reads_registers, run_tool

_NEEDED_MIB = 2048


@dataclass(frozen=True)
class Finding:
    """One check and its result; `mend` is the command that fixes it, empty if nothing is wrong."""

    what: str
    good: bool
    found: str
    mend: str = ""


@dataclass(frozen=True)
class Report:
    """All findings; `accelerator` is the one to use, None if campaigns cannot run here."""

    ready: bool
    accelerator: str | None
    findings: list[Finding]


def doctor(as_json: bool, uri: str | None) -> int:
    """Print the findings; return exit status 0 if campaigns can run here, else 1."""
    looks = (_qemu, _lines, _mke2fs, _strace, partial(_libvirt, uri), _products, room)
    report = examine(looks, partial(_boots, uri))
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        _print(report.findings)
    return 0 if report.ready else 1


def examine(looks: Sequence[Callable[[], Finding]], boots: Callable[[str], str]) -> Report:
    """Look at all that is needed; if it is there, try the accelerators.

    `boots` boots a guest with an accelerator, and returns why that failed, or "".
    """
    findings = [look() for look in looks]
    if not all(finding.good for finding in findings):
        return Report(False, None, [*findings, *(Finding(name, False, "not tried") for name in _MEND)])
    tried = [_accelerator(name, boots(name)) for name in _MEND]
    best = next((finding.what for finding in tried if finding.good), None)
    return Report(best is not None, best, [*findings, *tried])


def _print(findings: list[Finding]) -> None:
    table = Table("", "what", "found", "to mend it")
    for finding in findings:
        table.add_row("ok" if finding.good else "--", finding.what, finding.found, finding.mend)
    Console().print(table)


def _tool(what: str, argv: list[str]) -> Finding:
    try:
        return Finding(what, True, (run_tool(argv, what) or what).splitlines()[0])
    except RiobedError as error:
        return Finding(what, False, str(error), "make setup")


def _qemu() -> Finding:
    return _tool("QEMU", ["qemu-system-x86_64", "--version"])


def _lines() -> Finding:
    what = "QEMU for power-lines"
    try:
        return Finding(
            what, True, "as above" if reads_registers() else "Debian 13's, fetched when first needed"
        )
    except RiobedError as error:
        return Finding(what, False, str(error), "make setup")


def _mke2fs() -> Finding:
    try:
        return Finding("e2fsprogs", True, find_tool("mke2fs"))
    except RiobedError as error:
        return Finding("e2fsprogs", False, str(error), "make setup")


def _strace() -> Finding:
    return _tool("strace for traces", ["strace", "--version"])


def _libvirt(uri: str | None) -> Finding:
    try:
        from riobed.vm import connect

        version = connect(uri).getLibVersion()
    except ImportError as error:
        return Finding("libvirt", False, str(error), "make setup")
    except RiobedError as error:
        return Finding("libvirt", False, str(error), "make setup")
    return Finding("libvirt", True, f"{version // 1000000}.{version // 1000 % 1000}.{version % 1000}")


def _products() -> Finding:
    try:
        manifest = load_manifest()
    except RiobedError as error:
        return Finding("kernel and images", False, str(error), "make setup")
    return Finding(
        "kernel and images", True, f"Linux {manifest.kernel.release}, build {manifest.kernel.build_id[:12]}"
    )


def room() -> Finding:
    """Say whether the cache's disk has room."""
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free // MIB
    good = free >= _NEEDED_MIB
    return Finding(
        "room on disk", good, f"{free} MiB in {folder}", "" if good else f"free {_NEEDED_MIB} MiB there"
    )


def _boots(uri: str | None, accelerator: str) -> str:
    from riobed.guest import boots

    return boots(accelerator, load_manifest(), uri)


def _accelerator(name: str, complaint: str) -> Finding:
    return Finding(name, not complaint, complaint or "boots a guest", _MEND[name]() if complaint else "")


def _mend_kvm() -> str:
    if not Path("/dev/kvm").exists():
        return "none needed: tcg does the same, slower"
    return "none known for this host: tcg does the same, slower"


# The accelerators, the faster one first, and what helps if one does not boot a guest.
_MEND: dict[str, Callable[[], str]] = {"kvm": _mend_kvm, "tcg": lambda: "make setup"}
