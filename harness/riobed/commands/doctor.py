# SPDX-License-Identifier: Apache-2.0
"""`riobed doctor`: what this host has, what is missing, and the command that fixes it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
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


def doctor(as_json: bool, uri: str | None) -> int:
    """Print the findings; return exit status 0 if campaigns can run here, else 1."""
    findings = [look(uri) for look in (_qemu, _lines, _mke2fs, _libvirt, _products, _room)]
    ready = all(finding.good for finding in findings)
    kvm, tcg = (
        _accelerators(uri)
        if ready
        else (Finding("kvm", False, "not tried"), Finding("tcg", False, "not tried"))
    )
    findings += [kvm, tcg]
    usable = ready and (kvm.good or tcg.good)
    if as_json:
        accelerator = "kvm" if kvm.good else "tcg" if tcg.good else None
        print(
            json.dumps(
                {"ready": usable, "accelerator": accelerator, "findings": [asdict(f) for f in findings]}
            )
        )
    else:
        _print(findings)
    return 0 if usable else 1


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


def _qemu(_uri: str | None) -> Finding:
    return _tool("QEMU", ["qemu-system-x86_64", "--version"])


def _lines(_uri: str | None) -> Finding:
    what = "QEMU for power-lines"
    try:
        return Finding(
            what, True, "as above" if reads_registers() else "Debian 13's, fetched when first needed"
        )
    except RiobedError as error:
        return Finding(what, False, str(error), "make setup")


def _mke2fs(_uri: str | None) -> Finding:
    try:
        return Finding("e2fsprogs", True, find_tool("mke2fs"))
    except RiobedError as error:
        return Finding("e2fsprogs", False, str(error), "make setup")


def _libvirt(uri: str | None) -> Finding:
    try:
        from riobed.vm import connect

        version = connect(uri).getLibVersion()
    except ImportError as error:
        return Finding("libvirt", False, str(error), "make setup")
    except RiobedError as error:
        return Finding("libvirt", False, str(error), "make setup")
    return Finding("libvirt", True, f"{version // 1000000}.{version // 1000 % 1000}.{version % 1000}")


def _products(_uri: str | None) -> Finding:
    try:
        manifest = load_manifest()
    except RiobedError as error:
        return Finding("kernel and images", False, str(error), "make setup")
    return Finding(
        "kernel and images", True, f"Linux {manifest.kernel.release}, build {manifest.kernel.build_id[:12]}"
    )


def _room(_uri: str | None) -> Finding:
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free // MIB
    good = free >= _NEEDED_MIB
    return Finding(
        "room on disk", good, f"{free} MiB in {folder}", "" if good else f"free {_NEEDED_MIB} MiB there"
    )


def _accelerators(uri: str | None) -> tuple[Finding, Finding]:
    from riobed.guest import boots

    def look(name: str, mend: Callable[[], str]) -> Finding:
        complaint = boots(name, load_manifest(), uri)
        return Finding(name, not complaint, complaint or "boots a guest", mend() if complaint else "")

    kvm = look("kvm", _mend_kvm)
    return kvm, look("tcg", lambda: "make setup")


def _mend_kvm() -> str:
    if not Path("/dev/kvm").exists():
        return "none needed: tcg does the same, slower"
    return "none known for this host: tcg does the same, slower"
