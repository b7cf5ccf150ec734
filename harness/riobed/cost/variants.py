# SPDX-License-Identifier: Apache-2.0
"""The guests that are compared: mode `rio`, from which its parts are taken."""

from dataclasses import dataclass

from riobed.guest.modes import CacheMode, cache_mode

# Nobody writes dirty pages because they are old: without Rio the flusher would.
_NO_FLUSHER = {"vm.dirty_writeback_centisecs": 0}


@dataclass(frozen=True)
class Variant:
    """One guest; what it costs is its time over that of `versus`, from which it differs in one thing.

    `prepare` is a shell script and `batch` commands of the injector, both given before the work.
    """

    name: str
    versus: str | None
    mode: CacheMode
    prepare: str = ""
    batch: str = ""


def parts() -> list[Variant]:
    """What Rio is made of; the first is the same kernel, disk and settings without Rio."""
    return [
        Variant("off", None, _without_rio()),
        Variant("registry", "off", rio("rio.checksum=0", "rio.atomic_metadata=0")),
        Variant("atomic metadata", "registry", rio("rio.checksum=0")),
        Variant("checksums", "atomic metadata", rio()),
        Variant("pte", "atomic metadata", rio("rio.checksum=0", "rio.protect=pte")),
        Variant("pks", "atomic metadata", rio("rio.checksum=0", "rio.protect=pks")),
    ]


def rio(*parameters: str) -> CacheMode:
    """Mode `rio` with more parameters of the kernel, and without the flusher."""
    mode = cache_mode("rio")
    return mode.model_copy(
        update={
            "sysctls": mode.sysctls | _NO_FLUSHER,
            "kernel_parameters": (*mode.kernel_parameters, *parameters),
        }
    )


def _without_rio() -> CacheMode:
    mode = rio()
    options = [option for option in mode.mount.split(",") if option != "rio"]
    return mode.model_copy(update={"mount": ",".join(options), "restores_memory": False})
