# SPDX-License-Identifier: Apache-2.0
"""`riobed cost`: all runs of all variants, interleaved, and the table that comes out.

It can be stopped at any time: each run is stored when it is complete, and the next call with the
same folder goes on with those that are missing.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from riobed_results.store import SERIES, Provenance
from riobed_results.tables.cost.cost import COST
from riobed_results.tables.cost.cost_runs import FILE, CostRun, add_run, labelled, read_runs
from riobed_results.tables.framework.render import render

from riobed.cost.armed import armed
from riobed.cost.variants import Variant, parts
from riobed.errors import InfraError, UsageError
from riobed.faults import catalogue_of
from riobed.guest import (
    ENTRY_SIZE,
    Guest,
    GuestSetup,
    MachineSpec,
    WorkloadSpec,
    guest_setup,
    provenance,
)
from riobed.measure import Kind, guests, measure, order, workload_seed
from riobed.products import CHECKOUT
from riobed.trial import INJECTOR
from riobed.vm import COUNTED

What = Literal["rio", "faults"]

# Room for a source tree and its copy.
_DISK_MIB = 256
WORKLOADS = (CHECKOUT / "workloads/cp_rm", CHECKOUT / "workloads/memtest")


@dataclass(frozen=True)
class Series:
    """One workload's runs of one kind, before a folder is looked at."""

    kind: Kind
    variants: list[Variant]
    rounds: int
    seed: int
    setup: GuestSetup
    # Of each variant, by name.
    on: dict[str, Provenance]


def run_cost(
    out: Path,
    what: What,
    workloads: list[Path],
    rounds: int,
    counted_rounds: int,
    seed: int,
    uri: str | None,
    vcpus: int = 1,
) -> None:
    """Make the runs that are missing in `out`, of what Rio or faults cost, then write the table there."""
    out.mkdir(parents=True, exist_ok=True)
    for folder in workloads:
        machine = MachineSpec(disk_mib=_DISK_MIB, vcpus=vcpus)
        setup = guest_setup(machine, uri, WorkloadSpec(path=folder.resolve()))
        if not setup.workload or not setup.workload.measure:
            raise UsageError(f"workload {folder}: has no 'measure', a piece of work of fixed size")
        counting = replace(setup, accelerator=COUNTED)
        compared = _compared(what, setup)
        on_counting, on = (_provenance(each, seed, folder, compared) for each in (counting, setup))
        run_series(Series("instructions", compared, counted_rounds, seed, counting, on_counting), out)
        run_series(Series("time", compared, rounds, seed, setup, on), out)
    table = render(COST.of(out), "md")
    (out / "cost.md").write_text(table, encoding="utf-8")
    print(table, end="")


def _provenance(setup: GuestSetup, seed: int, folder: Path, compared: list[Variant]) -> dict[str, Provenance]:
    """Return the provenance of each variant: with its own kernel."""
    common = provenance(setup, str(seed), [folder.resolve()])
    found = {}
    for variant in compared:
        kernel = setup.products(variant.mode).kernel
        found[variant.name] = common.model_copy(
            update={
                "kernel_release": kernel.release,
                "kernel_build_id": kernel.build_id,
                "series_commit": kernel.series_commit,
            }
        )
    return found


def _compared(what: What, setup: GuestSetup) -> list[Variant]:
    if what == "rio":
        return parts()
    kernel = setup.manifest.kernel
    return armed(catalogue_of(kernel))


def run_series(series: Series, out: Path) -> None:
    """Make the runs of a series that are not stored yet."""
    # KVM hands no protection keys for supervisor pages on.
    compared = [
        each for each in series.variants if (each.name, series.on[each.name].accelerator) != ("pks", "kvm")
    ]
    done = _stored(out, series)
    name = series.setup.workload.name if series.setup.workload else ""
    with guests(series.setup, {each.name: each.mode for each in compared}, series.kind, "cost") as opened:
        for number in range(series.rounds):
            for variant in order(series.seed, series.kind, number, compared):
                vcpus = series.setup.machine.vcpus
                if (labelled(name, vcpus), series.kind, number, variant.name) in done:
                    continue
                run = _run(series, name, number, variant, opened[variant.name])
                add_run(out, run)
                print(f"{name} {series.kind} round {number} {variant.name}: {run.cost:.6g}", flush=True)


def _run(series: Series, workload: str, number: int, variant: Variant, guest: Guest) -> CostRun:
    seed = workload_seed(series.seed, number)
    guest.ready()
    prepare(guest, variant)
    found = measure(guest, seed)
    # One guest runs at a time.
    guest.machine.pause()
    return CostRun(
        workload=workload,
        kind=series.kind,
        round=number,
        variant=variant.name,
        versus=variant.versus,
        workload_seed=seed,
        work=found.work,
        seconds=found.seconds,
        parts=found.parts,
        idle_s=found.idle_s,
        before=found.before,
        after=found.after,
        events=found.events,
        vcpus=series.setup.machine.vcpus,
        operations=guest.workload.measure_operations,
        registry_bytes_per_page=ENTRY_SIZE,
        on=series.on[variant.name],
    )


def prepare(guest: Guest, variant: Variant) -> None:
    """Run a variant's script and load its batch in a guest that is ready; InfraError if that fails."""
    script = f"{variant.prepare}\n"
    if variant.batch:
        # One write: an open file is a batch.
        script += f"cat >/run/batch; cat /run/batch >{INJECTOR}\n"
    ended = guest.machine.run(["/bin/sh", "-ec", script], stdin=variant.batch.encode())
    if ended.status:
        raise InfraError(f"{guest.machine.config.name}: {variant.name}: status {ended.status}: {ended.error}")


def _stored(out: Path, series: Series) -> set[tuple[str, str, int, str]]:
    """Keys of the runs that are there; UsageError if they were made on something else."""
    runs = read_runs(out) if (out / FILE).exists() else []
    for run in runs:
        if run.variant not in series.on:
            raise UsageError(f"{out / FILE} has runs of {run.variant!r}; give --out another folder")
        difference = run.on.difference(series.on[run.variant], SERIES)
        if difference and (run.kind, run.vcpus) == (series.kind, series.setup.machine.vcpus):
            raise UsageError(
                f"{out / FILE} has runs of something else: {difference}; give --out another folder"
            )
    return {run.key for run in runs}
