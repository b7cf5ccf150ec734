# SPDX-License-Identifier: Apache-2.0
"""The guests that are compared: mode `rio`, from which its parts are taken."""

from dataclasses import dataclass

from riobed.modes import CacheMode, cache_mode

# Nobody writes dirty pages because they are old: without Rio the flusher would.
_NO_FLUSHER = {"vm.dirty_writeback_centisecs": 0}


@dataclass(frozen=True)
class Variant:
    """One guest; what it costs is its time over that of `versus`, from which it differs in one thing."""

    name: str
    versus: str | None
    mode: CacheMode


def variants() -> list[Variant]:
    """All of them; the first is the same kernel, disk and settings without Rio."""
    return [
        Variant("off", None, _without_rio()),
        Variant("registry", "off", _rio("rio.checksum=0", "rio.atomic_metadata=0")),
        Variant("atomic metadata", "registry", _rio("rio.checksum=0")),
        Variant("checksums", "atomic metadata", _rio()),
        Variant("pte", "atomic metadata", _rio("rio.checksum=0", "rio.protect=pte")),
        Variant("pks", "atomic metadata", _rio("rio.checksum=0", "rio.protect=pks")),
    ]


def _rio(*parameters: str) -> CacheMode:
    rio = cache_mode("rio")
    return rio.model_copy(
        update={
            "sysctls": rio.sysctls | _NO_FLUSHER,
            "kernel_parameters": (*rio.kernel_parameters, *parameters),
        }
    )


def _without_rio() -> CacheMode:
    rio = _rio()
    options = [option for option in rio.mount.split(",") if option != "rio"]
    return rio.model_copy(update={"mount": ",".join(options), "restores_memory": False})
