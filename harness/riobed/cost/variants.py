# SPDX-License-Identifier: Apache-2.0
"""The compared guests: mode `rio` with parts of it switched off, and two other kernels."""

from dataclasses import dataclass

from riobed.guest import CacheMode, cache_mode
from riobed.products import CHECKOUT, KernelSpec

# Without Rio the flusher would write dirty pages that are old; here nothing does.
_NO_FLUSHER = {"vm.dirty_writeback_centisecs": 0}


@dataclass(frozen=True)
class Variant:
    """One guest. Its cost is its time over that of `versus`, from which it differs in one thing.

    `prepare` is a shell script and `batch` a batch for the injector; both run before the work.
    """

    name: str
    versus: str | None
    mode: CacheMode
    prepare: str = ""
    batch: str = ""


def parts() -> list[Variant]:
    """Return the parts of Rio; the first variant has the same configuration and settings, and no patches."""
    return [
        Variant("unpatched", None, _unpatched()),
        Variant("off", "unpatched", _without_rio()),
        Variant("registry", "off", rio("rio.checksum=0", "rio.atomic_metadata=0")),
        Variant("atomic metadata", "registry", rio("rio.checksum=0")),
        Variant("checksums", "atomic metadata", rio()),
        Variant("pte", "atomic metadata", rio("rio.checksum=0", "rio.protect=pte")),
        Variant("pks", "atomic metadata", rio("rio.checksum=0", "rio.protect=pks")),
        Variant("code", "atomic metadata", _checked()),
    ]


def rio(*parameters: str) -> CacheMode:
    """Return mode `rio` with additional kernel parameters and without the flusher."""
    mode = cache_mode("rio")
    return mode.model_copy(
        update={
            "sysctls": mode.sysctls | _NO_FLUSHER,
            "kernel_parameters": (*mode.kernel_parameters, *parameters),
        }
    )


def _unpatched() -> CacheMode:
    kernel = KernelSpec(series=CHECKOUT / "guest-kernel-patches/unpatched")
    return _without_rio().model_copy(update={"kernel": kernel})


def _checked() -> CacheMode:
    kernel = cache_mode("rio-protected-code").kernel
    return rio("rio.checksum=0", "rio.protect=code").model_copy(update={"kernel": kernel})


def _without_rio() -> CacheMode:
    mode = rio()
    options = [option for option in mode.mount.split(",") if option != "rio"]
    return mode.model_copy(update={"mount": ",".join(options), "restores_memory": False})
