# SPDX-License-Identifier: Apache-2.0
"""What has to be the same wherever a campaign's trials are run, or they are not trials of one campaign."""

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from riobed.guest.guest import GuestSetup
from riobed.guest.images import workload_key
from riobed.products import content_key
from riobed.vm.host import qemu_version

# Of what this process has read: the files may change under a worker.
_HARNESS = content_key(Path(__file__).parents[1])


@dataclass(frozen=True)
class Basis:
    """On what trials run; `harness`, `image` and `workload` are hashes over their sources.

    Dask is among them because campaign and workers speak its protocol.
    """

    harness: str
    kernel_build_id: str
    image: str
    workload: str
    qemu_version: str
    accelerator: str
    dask: str

    def difference(self, here: "Basis") -> str:
        """The first thing that is different `here`, in one line; empty if nothing is."""
        for name, wanted in asdict(self).items():
            found = getattr(here, name)
            if found != wanted:
                return f"{name} is {found}, the campaign's is {wanted}"
        return ""


def basis(setup: GuestSetup, workload: Path) -> Basis:
    """On what trials with the workload in that folder run here."""
    return Basis(
        harness=_HARNESS,
        kernel_build_id=setup.manifest.kernel.build_id,
        image=setup.manifest.image.key,
        workload=workload_key(workload),
        qemu_version=qemu_version(),
        accelerator=setup.accelerator,
        dask=version("distributed"),
    )
