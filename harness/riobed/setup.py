# SPDX-License-Identifier: Apache-2.0
"""What every command that starts a guest needs first: what is built, and the accelerator."""

from pathlib import Path

from riobed.accelerator import choose, for_processors
from riobed.artifacts import Manifest, load_manifest
from riobed.guest import GuestSetup
from riobed.images import workload_image
from riobed.spec import MachineSpec, WorkloadSpec
from riobed.workload import check_options, load_workload


def guest_setup(machine: MachineSpec, uri: str | None, workload: WorkloadSpec | None = None) -> GuestSetup:
    """Everything a guest is made of; UsageError or EnvironmentFault in one line if it is not there."""
    loaded, image = None, None
    if workload:
        loaded = load_workload(workload.path)
        check_options(workload.path, loaded, workload.options)
    manifest: Manifest = load_manifest()
    if loaded and workload:
        image = workload_image(Path(workload.path), loaded.build, manifest)
    return GuestSetup(
        manifest=manifest,
        machine=machine,
        accelerator=for_processors(choose(machine.accelerator, manifest, uri), machine.vcpus),
        workload=loaded,
        workload_image=image,
        options=dict(workload.options) if workload else None,
    )
