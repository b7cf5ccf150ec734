# SPDX-License-Identifier: Apache-2.0
"""`riobed bench`: make the runs of a bench and show how far it is.

The report is not kept up to date meanwhile, as `riobed run` does it: that would take the processors from the
guests that are measured.
"""

import time
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from riobed_results.store import RunRow, locked, open_store, try_store

from riobed.bench import Bench, PlannedRun, bench_setups, load_bench
from riobed.commands.run import span
from riobed.commands.trial_line import columns, fitted
from riobed.errors import UsageError


def run_bench(spec_path: Path, workloads: Collection[str], store: str, uri: str | None) -> None:
    """Make or resume the bench in a spec file, or what it measures with some workloads; rows go to `store`.

    UsageError if the spec has no such workload.
    """
    spec = load_bench(spec_path)
    if unknown := set(workloads) - spec.workloads.keys():
        there = ", ".join(spec.workloads)
        raise UsageError(f"spec {spec_path}: no workload {min(unknown)!r}; there are: {there}")
    try_store(store)
    console = Console()
    with console.status("Looking for built products, trying accelerators (up to a minute the first time)"):
        setups = bench_setups(spec, uri)
    opened = open_store(store, create=True)
    with ExitStack() as locks:
        # Others may be measured by another process meanwhile.
        for name in workloads or spec.workloads:
            locks.enter_context(locked(store, f"{spec.name} {name}"))
        bench = Bench(spec, setups, opened, workloads)
        told = Told(bench.missing())

        def report(row: RunRow) -> None:
            line = told.line(row, columns(console.file))
            console.print(line, highlight=False, markup=False, soft_wrap=True)

        bench.run(report)
    what = f"{', '.join(sorted(workloads))} of bench" if workloads else "Bench"
    table = "cost" if spec.over else "performance"
    end = f"{what} {spec.name!r} is complete. Its table: riobed table {table} --store {store}"
    console.print(end, highlight=False, markup=False, soft_wrap=True)


class Told:
    """What is told of each run: which it was, its result, how many there are, and the time left."""

    def __init__(self, missing: list[PlannedRun]) -> None:
        # By workload, disk, vcpus and kind, on which it depends how long they take.
        self._left = Counter(run.key[:4] for run in missing)
        self._took: dict[tuple[str, str, int, str], list[float]] = {}
        self._start = time.monotonic()

    def line(self, row: RunRow, width: int) -> str:
        """Return the line, of at most `width` columns, of a run that has just ended."""
        now, like = time.monotonic(), row.key[:4]
        self._took.setdefault(like, []).append(now - self._start)
        self._start = now
        if row.outcome != "infra_error":
            self._left[like] -= 1
        vcpus = f" {row.vcpus} vCPUs" if row.vcpus > 1 else ""
        what = f"{row.workload} {row.disk}{vcpus} {row.kind} round {row.round} {row.mode}"
        left = f"; {sum(self._left.values())} runs left, about {span(self.hours_left())}"
        return fitted(f"{what}: {_result(row)}", width, left)

    def hours_left(self) -> float:
        """Estimate the time left by how long runs of the same workload on the same disk took, or else any."""
        every = [seconds for took in self._took.values() for seconds in took]
        mean = sum(every) / len(every)
        each = {like: sum(took) / len(took) for like, took in self._took.items()}
        return sum(left * each.get(like, mean) for like, left in self._left.items()) / 3600


def _result(row: RunRow) -> str:
    if row.outcome == "infra_error":
        return f"infra error, attempt {row.attempt}: {row.detail}"
    if row.outcome == "wrong":
        return row.detail
    if row.kind == "instructions":
        return f"{row.cost:.5g} instructions"
    parts = " + ".join(f"{seconds:.2f}" for seconds in row.parts.values())
    return f"{row.seconds:.2f} s" + (f" ({parts})" if parts else "")
