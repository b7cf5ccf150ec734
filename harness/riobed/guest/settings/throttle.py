# SPDX-License-Identifier: Apache-2.0
"""How fast a disk is: limits that are given, or those of a disk model of throttles.yaml."""

from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field, StringConstraints, TypeAdapter, model_validator

from riobed.errors import UsageError
from riobed.guest.settings.strict import Strict, as_value_error
from riobed.yamltext import parse_yaml

Limit = Annotated[int, Field(ge=1, lt=2**40)]
OneLine = Annotated[str, StringConstraints(pattern=r"^[^\n]+$")]
_IOTUNE = {
    "iops": "total_iops_sec",
    "read_iops": "read_iops_sec",
    "write_iops": "write_iops_sec",
    "bytes_per_s": "total_bytes_sec",
    "read_bytes_per_s": "read_bytes_sec",
    "write_bytes_per_s": "write_bytes_sec",
}


class Throttle(Strict):
    """The speed limits of a disk; None is no limit.

    QEMU's throttle keeps them in trials. In a bench they are times that requests take. They may also be given
    as the name of a disk model; what is stored are limits, which a later change of the model does not change.
    """

    iops: Limit | None = None
    read_iops: Limit | None = None
    write_iops: Limit | None = None
    bytes_per_s: Limit | None = None
    read_bytes_per_s: Limit | None = None
    write_bytes_per_s: Limit | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_model(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        with as_value_error():
            return _model(given)

    @model_validator(mode="after")
    def _one_way_to_count(self) -> "Throttle":
        for unit in ("iops", "bytes_per_s"):
            parts = [f"{way}_{unit}" for way in ("read", "write") if getattr(self, f"{way}_{unit}")]
            if getattr(self, unit) and parts:
                raise ValueError(f"{unit} limits reads and writes together; leave it out or {parts[0]}")
        return self

    def scaled(self, times: float) -> "Throttle":
        """Return the limits of a disk that is faster by this factor."""
        limits = self.model_dump(exclude_none=True)
        return Throttle(**{key: max(1, round(times * limit)) for key, limit in limits.items()})

    def delays(self) -> dict[str, int]:
        """Return how long a request takes in ns, and at what rate its bytes, as attributes of riobed_disk.

        A disk that does N requests a second, one after the other, takes 1/N s for each. 0 is no limit.
        """
        found = {}
        for way in ("read", "write"):
            requests = self.iops or getattr(self, f"{way}_iops")
            found[f"{way}_ns"] = round(1e9 / requests) if requests else 0
            found[f"{way}_bytes_per_s"] = self.bytes_per_s or getattr(self, f"{way}_bytes_per_s") or 0
        return found

    def iotune(self) -> tuple[tuple[str, int], ...]:
        """Return the limits as elements of libvirt's <iotune>."""
        return tuple((_IOTUNE[key], limit) for key, limit in self.model_dump(exclude_none=True).items())


class DiskModel(Strict):
    """An entry of throttles.yaml; each limit has a source."""

    summary: OneLine
    limits: Throttle
    sources: dict[str, OneLine]

    @model_validator(mode="after")
    def _each_has_a_source(self) -> "DiskModel":
        if self.limits.model_dump(exclude_none=True).keys() != self.sources.keys():
            raise ValueError("sources: want one for each limit")
        return self


@cache
def disk_models() -> dict[str, DiskModel]:
    """Return all disk models by name, in the order of throttles.yaml."""
    text = files("riobed.guest").joinpath("throttles.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, DiskModel]).validate_python(parse_yaml(text, "throttles.yaml"))


def _model(name: str) -> dict[str, int]:
    if name not in disk_models():
        raise UsageError(f"unknown disk model {name!r}; there are: {', '.join(disk_models())}")
    return disk_models()[name].limits.model_dump(exclude_none=True)
