# SPDX-License-Identifier: Apache-2.0
"""The parts of a spec that describe a guest: its machine and its workload."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from riobed.guest.memory.layout import MIB, MIN_RAM, Layout
from riobed.guest.settings.strict import Strict, as_value_error
from riobed.guest.settings.throttle import Throttle
from riobed.products import CHECKOUT


class BesideSpec(Strict):
    """A workload that runs beside another; `path` is absolute or relative to the spec's folder."""

    path: Path
    options: dict[str, str | int] = Field(default_factory=dict)


class WorkloadSpec(BesideSpec):
    """The workload to run in the guest, which is judged, and others that run at the same time."""

    path: Path = CHECKOUT / "workloads/memtest"
    beside: tuple[BesideSpec, ...] = ()

    @property
    def folders(self) -> list[Path]:
        """The folders of all these workloads, of the judged one first."""
        return [self.path, *(each.path for each in self.beside)]

    def moved(self, move: Callable[[Path], Path]) -> "WorkloadSpec":
        """Return these workloads with `move(path)` for the path of each."""
        beside = tuple(each.model_copy(update={"path": move(each.path)}) for each in self.beside)
        return self.model_copy(update={"path": move(self.path), "beside": beside})


class MachineSpec(Strict):
    """The guest's machine. Sizes in MiB."""

    memory_mib: int = 512
    # Non-volatile memory (docs/nvram.md); 0: none.
    nvdimm_mib: int = 0
    # Of that, what has a pattern and no use: what differs there after a crash is due to a stray store.
    canary_mib: int = 0
    disk_mib: Annotated[int, Field(ge=32, le=16384)] = 128
    # How fast the disk under test is, in modes that do not say it themselves.
    throttle: Throttle = Throttle()
    vcpus: Annotated[int, Field(ge=1, le=4)] = 1
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    # The guest's clock counts instructions, so a replay can repeat a trial instruction by instruction.
    icount: bool = False
    # Stage 0 saves old memory to a swap disk before it recovers, as in the paper.
    save_memory: bool = False

    @field_validator("memory_mib")
    @classmethod
    def _has_a_layout(cls, value: int) -> int:
        with as_value_error():
            Layout(value * MIB)
        return value

    @field_validator("nvdimm_mib")
    @classmethod
    def _fits_the_layout(cls, value: int) -> int:
        with as_value_error():
            Layout(MIN_RAM, nvdimm=value * MIB)
        return value

    @property
    def nvdimm_used_mib(self) -> int:
        """What modes have of the NVDIMM."""
        return self.nvdimm_mib - self.canary_mib

    @model_validator(mode="after")
    def _has_room_for_a_canary(self) -> "MachineSpec":
        with as_value_error():
            Layout(MIN_RAM, nvdimm=self.nvdimm_mib * MIB, canary=self.canary_mib * MIB)
        return self

    @model_validator(mode="after")
    def _can_count(self) -> "MachineSpec":
        if self.icount and (self.accelerator == "kvm" or self.vcpus > 1):
            raise ValueError("icount: needs one emulated processor; change accelerator or vcpus")
        return self
