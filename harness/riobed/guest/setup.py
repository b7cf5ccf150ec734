# SPDX-License-Identifier: Apache-2.0
"""The first step of every command that starts a guest: find the built products and the accelerator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from riobed_results.store import KernelProvenance, Provenance, utc_now

from riobed.errors import UsageError
from riobed.guest.accelerator import choose, for_processors
from riobed.guest.assembly import GuestSetup
from riobed.guest.settings.config import BesideSpec, MachineSpec, WorkloadSpec
from riobed.guest.settings.kernel import GUEST_NEEDS, check_config, kernel_config
from riobed.guest.settings.modes import CacheMode
from riobed.guest.settings.parameters import check_free
from riobed.guest.snapshots import kept_guests
from riobed.guest.workload.description import Workload, check_options, load_workload, put_beside
from riobed.guest.workload.images import workload_image, workload_key
from riobed.products import Manifest, content_key, load_manifest
from riobed.vm import REPEATABLE, driver, qemu_version, reading_qemu

# Hashed when imported: files may change while a worker runs.
_HARNESS = content_key(Path(__file__).parents[1])


def guest_setup(
    machine: MachineSpec,
    uri: str | None = None,
    workload: WorkloadSpec | None = None,
    parked: bool = False,
    loses_lines: bool = False,
    counts_nvdimm: bool = False,
) -> GuestSetup:
    """Collect what a guest is made of; with `parked` its stage 0 is parked (riobed.guest.parking).

    With `loses_lines` its emulator knows which lines of an NVDIMM a loss of power takes. With `counts_nvdimm`
    it can count what goes to the NVDIMM. Either takes a QEMU whose plugins can. If RIOBED_SNAPSHOTS names a
    folder, guests start from the snapshots in it.

    UsageError if the workload is not valid, EnvironmentFault if something is not built or installed.
    """
    loaded, image, others = None, None, []
    if workload:
        loaded, *others = [_loaded(each) for each in (workload, *workload.beside)]
        beside = put_beside(
            loaded, [(of, each.options) for of, each in zip(others, workload.beside, strict=True)]
        )
    machines = driver(uri)
    manifest: Manifest = load_manifest()
    wanted = "tcg" if loses_lines else machine.accelerator
    if loaded and workload:
        builds = [(each.path, of.built_by) for of, each in zip(others, workload.beside, strict=True)]
        image = workload_image(Path(workload.path), loaded.built_by, manifest, builds)
    return GuestSetup(
        manifest=manifest,
        machine=machine,
        accelerator=REPEATABLE
        if machine.icount
        else for_processors(choose(wanted, manifest, uri), machine.vcpus),
        workload=loaded,
        workload_image=image,
        options=dict(workload.options) if workload else None,
        beside=tuple(beside) if workload else (),
        parked=parked,
        loses_lines=loses_lines,
        qemu=reading_qemu(manifest) if loses_lines or counts_nvdimm else None,
        snapshots=kept_guests(),
        driver=machines,
    )


def _loaded(spec: BesideSpec) -> Workload:
    workload = load_workload(spec.path)
    check_options(spec.path, workload, spec.options)
    return workload


def check_mode(name: str, mode: CacheMode, setup: GuestSetup) -> None:
    """Raise UsageError unless workload and kernel (built first if missing) have what a mode's guests need."""
    setup.options_in(mode)
    config = kernel_config(setup.products(mode).kernel)
    check_config(f"mode {name}", config, GUEST_NEEDS | mode.kernel_needs)
    # The kernel reads these words before those that it is given. Kconfig escapes quotes.
    own = re.sub(r'[\\"]', "", config.get("CONFIG_CMDLINE", "")).split()
    check_free(own, f"mode {name}: CONFIG_CMDLINE of its kernel: ")
    recovery = setup.stage0_kernel(mode)
    fragment = "nvdimm" if mode.nvdimm else "filesystems"
    for option, why in mode.recovery_needs.items():
        if kernel_config(recovery).get(option) != "y":
            raise UsageError(
                f"mode {name}: the recovery kernel does not have {option} built in, but {why}; give the mode "
                f"a kernel with it, as `kernel: {{config: [{fragment}]}}`"
            )


def provenance(
    setup: GuestSetup,
    seed: str,
    folders: Sequence[Path] = (),
    modes: Mapping[str, CacheMode] | None = None,
) -> Provenance:
    """Return the provenance of runs with this seed; `folders` are those of the workloads."""
    kernels = {name: setup.products(mode).kernel for name, mode in (modes or {}).items()}
    kernel = setup.manifest.kernel
    return Provenance(
        seed=seed,
        kernel_release=kernel.release,
        kernel_build_id=kernel.build_id,
        series_commit=kernel.series_commit,
        qemu_version=qemu_version(setup.qemu),
        accelerator=setup.accelerator,
        created=utc_now(),
        kernels={
            mode: KernelProvenance(release=of.release, build_id=of.build_id, series_commit=of.series_commit)
            for mode, of in kernels.items()
            if of.build_id != kernel.build_id
        },
        harness=_HARNESS,
        image=setup.manifest.image.key,
        workload=workload_key(folders[0], *map(workload_key, folders[1:])) if folders else None,
    )
