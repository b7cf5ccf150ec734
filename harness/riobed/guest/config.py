# SPDX-License-Identifier: Apache-2.0
"""What a user says of a guest: its machine and its workload, as parts of a spec."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from riobed.errors import UsageError
from riobed.guest.layout import MIB, Layout
from riobed.products import CHECKOUT


@contextmanager
def as_value_error() -> Iterator[None]:
    """A complaint in the form in which pydantic adds the key to it."""
    try:
        yield
    except UsageError as error:
        raise ValueError(str(error)) from None


class Strict(BaseModel):
    """A part of a spec: no keys but its own, and it never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WorkloadSpec(Strict):
    """Which workload runs in the guest; `path` is relative to the spec's folder or absolute."""

    path: Path = CHECKOUT / "workloads/memtest"
    options: dict[str, str | int] = {}


class MachineSpec(Strict):
    """The guest. Sizes in MiB."""

    memory_mib: int = 512
    disk_mib: Annotated[int, Field(ge=32, le=16384)] = 128
    vcpus: Annotated[int, Field(ge=1, le=4)] = 1
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    # The guest's clock counts its instructions, so that a replay can be the same one by one.
    icount: bool = False
    # Before recovery old memory is saved to a swap disk, as in the paper.
    save_memory: bool = False

    @field_validator("memory_mib")
    @classmethod
    def _has_a_layout(cls, value: int) -> int:
        with as_value_error():
            Layout(value * MIB)
        return value

    @model_validator(mode="after")
    def _can_count(self) -> "MachineSpec":
        if self.icount and (self.accelerator == "kvm" or self.vcpus > 1):
            raise ValueError("icount: for one emulated processor; change accelerator or vcpus")
        return self
