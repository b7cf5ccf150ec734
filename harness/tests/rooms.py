# SPDX-License-Identifier: Apache-2.0
"""The structure: the rooms of the code, which of them each may import, and what each file does import."""

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "riobed": "harness",
    "riobed_caches": "harness",
    "pytest_riobed": "harness",
    "riobed_results": "results",
    "publishing": "results",
}

_TABLES = ("caches", "corruption", "crashes", "controls", "nvdimm")

# Packages that stand for the room above all others of theirs.
FACES = {"riobed": "riobed's face", "riobed_results": "riobed_results' face"}

# Each room may import from the rooms named behind it, and from what those may import.
ALLOWED = {
    "riobed.cli": ["riobed.cli_trace", "riobed_results.cli"],
    "riobed.cli_trace": [
        "riobed.commands",
        *(f"riobed_caches.{name}" for name in ("generator", "importers")),
    ],
    "riobed.commands": [f"riobed.{name}" for name in ("bench", "campaign", "propagation", "soak", "sweep")]
    + ["riobed_results.report", "riobed_caches.study"],
    "pytest_riobed": ["riobed's face"],
    "riobed's face": ["riobed.trial"],
    "riobed.bench": ["riobed.measure", "riobed.campaign"],
    "riobed.campaign": ["riobed.trial"],
    "riobed.propagation": ["riobed.trial"],
    "riobed.soak": ["riobed.trial", "riobed_results.tables"],
    "riobed.sweep": ["riobed.guest", "riobed_results.tables"],
    "riobed.measure": ["riobed.plan"],
    "riobed.trial": ["riobed.trial.recovery"],
    "riobed.trial.recovery": ["riobed.trial.record"],
    "riobed.trial.record": ["riobed.trial.control", "riobed.trial.verdict"],
    "riobed.trial.control": ["riobed.trial.observe"],
    "riobed.trial.verdict": ["riobed.trial.observe"],
    "riobed.trial.observe": ["riobed.plan", "riobed_results.store"],
    "riobed.plan": ["riobed.guest", "riobed.faults", "riobed_results.rules"],
    "riobed.guest": ["riobed.guest.workload", "riobed.crash"],
    "riobed.guest.workload": ["riobed.guest.settings"],
    "riobed.guest.settings": ["riobed.guest.memory", "riobed_results.store"],
    "riobed.guest.memory": ["riobed.vm"],
    "riobed.faults": ["riobed.faults.classes"],
    "riobed.faults.classes": ["riobed.faults.sites", "riobed.faults.base"],
    "riobed.faults.base": ["riobed.faults.sites", "riobed.faults.parameters"],
    "riobed.faults.parameters": [],
    "riobed.faults.sites": ["riobed.products"],
    "riobed.vm": ["riobed.vm.qemu"],
    "riobed.vm.qemu": ["riobed.vm.nvdimm"],
    "riobed.vm.nvdimm": ["riobed.vm.emulator"],
    "riobed.vm.emulator": ["riobed.vm.machine", "riobed.vm.host"],
    "riobed.vm.machine": ["riobed.vm.agent"],
    "riobed.vm.agent": ["riobed"],
    "riobed.vm.host": ["riobed.products"],
    "riobed.crash": ["riobed_results.store"],
    "riobed.products": ["riobed", "riobed_results.files"],
    "riobed": [],
    "publishing": ["riobed_results.cli"],
    "riobed_results.__main__": ["riobed_results.cli"],
    "riobed_results' face": ["riobed_results.tables", "riobed_results.export"],
    "riobed_results.cli": ["riobed_results.report", "riobed_results.export"],
    "riobed_results.report": ["riobed_results.tables"],
    "riobed_results.tables": [f"riobed_results.tables.{name}" for name in _TABLES],
    "riobed_results.tables.caches": ["riobed_results.tables.framework", "riobed_caches.papers"],
    "riobed_results.tables.nvdimm": ["riobed_results.tables.cost"],
    "riobed_results.tables.cost": ["riobed_results.tables.paper"],
    "riobed_results.tables.controls": ["riobed_results.tables.framework"],
    "riobed_results.tables.crashes": ["riobed_results.tables.framework"],
    "riobed_results.tables.corruption": ["riobed_results.tables.paper"],
    "riobed_results.tables.paper": ["riobed_results.tables.framework"],
    "riobed_results.tables.framework": ["riobed_results.rules", "riobed_results.stats"],
    "riobed_results.export": ["riobed_results.rules"],
    "riobed_results.rules": ["riobed_results.store"],
    "riobed_results.stats": [],
    "riobed_results.store": ["riobed_results"],
    "riobed_results": ["riobed_results.files"],
    "riobed_results.files": [],
    "riobed_caches.study": ["riobed_caches.models", "riobed_caches.rowfiles"],
    "riobed_caches.generator": ["riobed_caches.trace", "riobed_caches.papers"],
    "riobed_caches.importers": ["riobed_caches.recording"],
    "riobed_caches.recording": ["riobed_caches.trace"],
    "riobed_caches.models": ["riobed_caches.stream"],
    "riobed_caches.stream": ["riobed_caches.trace"],
    "riobed_caches.trace": ["riobed_caches"],
    "riobed_caches.papers": ["riobed_caches.rowfiles"],
    "riobed_caches.rowfiles": ["riobed_caches"],
    "riobed_caches": [],
}


def modules() -> dict[str, Path]:
    found = {}
    for package, base in PACKAGES.items():
        for path in (CHECKOUT / base / package).rglob("*.py"):
            parts = path.relative_to(CHECKOUT / base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def room(module: str) -> str:
    if module in FACES:
        return FACES[module]
    return max((name for name in ALLOWED if f"{module}.".startswith(f"{name}.")), key=len)


def reach(name: str) -> set[str]:
    return {name}.union(*(reach(below) for below in ALLOWED[name]))


def arrows() -> dict[str, set[str]]:
    """Map each module to those that it imports."""
    known = modules()
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}
