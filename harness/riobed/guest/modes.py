# SPDX-License-Identifier: Apache-2.0
"""Cache modes, read from modes.yaml: adding one is adding an entry there."""

from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from riobed.errors import UsageError
from riobed.guest.layout import Layout
from riobed.products import KernelSpec


class CacheMode(BaseModel):
    """One way to keep file data; the keys are explained in modes.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str
    mkfs: tuple[str, ...] = ()
    mount: str = "defaults"
    sysctls: dict[str, int] = {}
    kernel_parameters: tuple[str, ...] = ()
    sync_writes: bool = False
    restores_memory: bool = False
    kernel: KernelSpec | None = None

    @property
    def kernel_needs(self) -> dict[str, str]:
        """Options that its kernel must have, and why."""
        if self.restores_memory or "rio" in self.mount.split(","):
            return {"CONFIG_RIO": "the mode keeps a registry of the file cache"}
        return {}

    def production_parameters(self, layout: Layout) -> list[str]:
        """Kernel parameters of this mode's production kernel on that memory layout."""
        parameters = [f"riobed.mount={self.mount}"]
        if self.sysctls:
            parameters.append("riobed.sysctl=" + ",".join(f"{k}={v}" for k, v in self.sysctls.items()))
        if self.restores_memory:
            parameters += [f"rio.registry={layout.registry}", f"rio.keepout={layout.keepout}"]
        return parameters + list(self.kernel_parameters)


@cache
def all_modes() -> dict[str, CacheMode]:
    """Every cache mode by name, in the order of modes.yaml."""
    text = files("riobed.guest").joinpath("modes.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, CacheMode]).validate_python(yaml.safe_load(text))


def cache_mode(name: str) -> CacheMode:
    """The mode of that name; UsageError names those there are."""
    try:
        return all_modes()[name]
    except KeyError:
        raise UsageError(f"unknown cache mode {name!r}; there are: {', '.join(all_modes())}") from None
