# SPDX-License-Identifier: Apache-2.0
"""Provenance: what runs were made on and with. Two runs are comparable only if it matches."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

# Fields that must be equal, by purpose. A replay needs the same kernel:
KERNEL = ("kernel_build_id", "kernels")
# Measurements and replays of one table:
SERIES = ("seed", *KERNEL, "qemu_version", "accelerator")
# Trials of one campaign, whose spec has the seed:
CAMPAIGN = (*KERNEL, "qemu_version", "accelerator", "harness", "image", "workload")
# A cluster's worker that runs such trials; it must also speak the campaign's Dask protocol.
WORKER = (*CAMPAIGN, "dask")


class KernelProvenance(BaseModel):
    """One kernel: its release, the build id of its vmlinux, and the key of its patch series."""

    model_config = ConfigDict(frozen=True)

    release: str
    build_id: str
    series_commit: str


class Provenance(BaseModel):
    """What runs were made on and with; a figure means nothing without it.

    `kernel_*` and `series_commit` describe the kernel of all modes except those in `kernels`, which have
    their own. `harness`, `image` and `workload` are hashes over sources, `dask` is a version; all are None
    if they were not recorded. `created` is UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True)

    seed: str
    kernel_release: str
    kernel_build_id: str
    series_commit: str
    qemu_version: str
    accelerator: str
    created: str
    kernels: dict[str, KernelProvenance] = {}
    harness: str | None = None
    image: str | None = None
    workload: str | None = None
    dask: str | None = None

    def difference(self, other: "Provenance", fields: Iterable[str]) -> str:
        """Return in one line the first of `fields` in which `other` differs; empty if none does.

        A field that one of the two has not recorded is not compared.
        """
        for name in fields:
            wanted, found = getattr(self, name), getattr(other, name)
            if None not in (wanted, found) and wanted != found:
                return f"{name} is {_told(found)}, not {_told(wanted)}"
        return ""

    @property
    def kernel(self) -> KernelProvenance:
        """The kernel of the modes that have none of their own."""
        return KernelProvenance(
            release=self.kernel_release, build_id=self.kernel_build_id, series_commit=self.series_commit
        )

    def kernel_of(self, mode: str) -> KernelProvenance:
        """Return the kernel that a mode ran on."""
        return self.kernels.get(mode, self.kernel)

    @model_serializer(mode="wrap")
    def _without_the_unknown(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialise(self).items() if value not in (None, {})}


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{mode} {kernel.build_id}" for mode, kernel in value.items()) or "one for all modes"
    return str(value)
