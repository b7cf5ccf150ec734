# SPDX-License-Identifier: Apache-2.0
"""Cache modes: the shipped ones of modes.yaml, and a user's own with the same keys."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from riobed_results.store import PromiseKind

from riobed.errors import UsageError, complaint
from riobed.guest.memory.layout import LARGE_STAGE0_SIZE, MIB, OTHERS_STAGE0_SIZE, STAGE0_SIZE, Layout
from riobed.guest.settings import parameters
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.filesystems import CACHED_DISK, FILE_SYSTEMS, NVDIMM_DEVICE, TEST_DISK, FileSystem
from riobed.guest.settings.promise import Promise, broken_states, window_s
from riobed.guest.settings.strict import Strict, as_value_error
from riobed.guest.settings.throttle import OneLine, Throttle
from riobed.products import KernelSpec
from riobed.vm import CachePolicy
from riobed.yamltext import parse_yaml

ModeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
# A word of a kernel command line: no blanks, no quotes, no backslash.
Word = Annotated[str, StringConstraints(pattern=r"^[!#-&(-\[\]-~]+$")]
# Of riobed-init's list NAME=VALUE,...
SysctlName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./-]+$")]


# A mode, or its keys as they are in YAML.
Mode = TypeVar("Mode")
# Names of kernel parameters or sysctls.
Names = TypeVar("Names", tuple[str, ...], dict[str, int])


def _whole_percent(share: float) -> float:
    if abs(100 * share - round(100 * share)) > 1e-9:
        raise ValueError("want whole per cent, as 0.03")
    return share


# A share of RAM. Of whole per cent, because it is in the names of arms.
CacheShare = Annotated[float, Field(ge=0.01, le=0.95), AfterValidator(_whole_percent)]
# Of the disk under test, how much files may fill: the file system has its tables there, too.
_DISK_FOR_FILES = 0.8
# Serial numbers that the machine's other disks already have (domain.xml.j2).
_TAKEN = ("swap", "workload")
_MOST_DEVICES = 8
# What the machine's NVDIMM has: the file system under test, the journal of the one on the disk, a cache of
# the disk, swapped memory, or memory.
NvdimmUse = Literal["filesystem", "journal", "cache", "swap", "memory"]
# Makes the disk and its cache one device (harness/guest/root/usr/lib/riobed/environment.sh).
_JOIN_CACHE = ["/bin/sh", "-c", ". /usr/lib/riobed/environment.sh && join_cache"]
# Of memory: the kernel adds whole blocks of 128 MiB (Documentation/admin-guide/mm/memory-hotplug.rst), and
# the first pages of the NVDIMM say what it is for.
_SMALLEST_MEMORY_MIB = 256
# Of a cache: stage 0 has to describe each of its blocks in the boot window.
_LARGEST_CACHE_MIB = 512
# The kernel closes it to stray stores, by the mechanism of the registry: it needs one.
_CLOSED = "rio.nvdimm=1"
# A guest that panics is not reset before.
_LONGEST_SYNC_S = 300
# Options of the drivers that find an NVDIMM and map it.
NVDIMM_DRIVERS = frozenset({"CONFIG_X86_PMEM_LEGACY", "CONFIG_BLK_DEV_PMEM"})
# Of machines for such modes that no spec describes.
_USUAL_NVDIMM_MIB = 64


class Device(Strict):
    """An additional disk of a mode's machine; the guest finds it at /dev/disk/by-id/virtio-NAME."""

    # A virtio disk's serial number has 20 characters.
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
    kind: Literal["disk"] = "disk"
    size_mib: Annotated[int, Field(ge=1, le=16384)]
    cache: CachePolicy = "unsafe"
    throttle: Throttle = Throttle()

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in _TAKEN:
            raise ValueError(f"{value!r} already names a disk of the machine; choose another name")
        return value


class CacheMode(Strict):
    """One way to keep file data; docs/own-mode.md explains the keys."""

    summary: OneLine
    permanent: OneLine | None = None
    filesystem: str = "ext4"
    mkfs: tuple[str, ...] = ()
    mount: Word = "defaults"
    cache: CachePolicy = "unsafe"
    # None: that of the machine.
    throttle: Throttle | None = None
    devices: Annotated[tuple[Device, ...], Field(max_length=_MOST_DEVICES)] = ()
    nvdimm: NvdimmUse | None = None
    sysctls: dict[SysctlName, int] = Field(default_factory=dict)
    kernel_parameters: tuple[Word, ...] = ()
    sync_writes: bool = False
    sync_on_close: bool = False
    # Seconds for which a kernel that panics tries to write dirty data; 0: it does not try.
    panic_sync_s: Annotated[int, Field(ge=0, le=_LONGEST_SYNC_S)] = 0
    restores_memory: bool = False
    # Absent: what follows from the other keys.
    promise: PromiseKind | None = None
    loss_window_s: Annotated[float | None, Field(gt=0, le=86400)] = None
    cache_share: CacheShare | None = None
    kernel: KernelSpec | None = None

    def without_checksums(self) -> "CacheMode":
        """Return the mode without Rio's checksums, if it has any: with them trials tell direct corruption."""
        if "rio" not in self.mount.split(","):
            return self
        return self.model_copy(update={"kernel_parameters": (*self.kernel_parameters, "rio.checksum=0")})

    @property
    def kernel_needs(self) -> dict[str, str]:
        """The options that its kernel must have, each with the reason."""
        needs = self.recovery_needs
        if self.restores_memory or "rio" in self.mount.split(","):
            needs["CONFIG_RIO_CACHE"] = "the mode records the file cache in a registry"
        if _CLOSED in self.kernel_parameters:
            needs["CONFIG_RIO_CACHE_NVDIMM"] = "the mode closes the NVDIMM to stray stores"
        if self.panic_sync_s:
            needs["CONFIG_PANIC_SYNC"] = "the mode writes dirty data at a panic"
        if "dax" in self.mount.split(","):
            needs["CONFIG_FS_DAX"] = "the mode mounts with dax"
        if self.nvdimm == "swap":
            needs["CONFIG_SWAP"] = "the mode swaps to the NVDIMM"
        return needs

    @property
    def recovery_needs(self) -> dict[str, str]:
        """The options that its recovery kernel must have built in, each with the reason."""
        needs = dict.fromkeys(self.file_system.config, f"the file system is {self.filesystem}")
        drivers = sorted(NVDIMM_DRIVERS) if self.nvdimm else []
        # dm-writecache asks for what DAX gives: the addresses of the NVDIMM's blocks.
        drivers += ["CONFIG_DM_WRITECACHE", "CONFIG_FS_DAX"] if self.nvdimm == "cache" else []
        drivers += ["CONFIG_NVDIMM_DAX", "CONFIG_DEV_DAX_KMEM"] if self.nvdimm == "memory" else []
        return needs | dict.fromkeys(drivers, f"the mode has its {self.nvdimm} on the NVDIMM")

    @property
    def device(self) -> str:
        """The device of the file system under test, in the guest."""
        return {"filesystem": NVDIMM_DEVICE, "cache": CACHED_DISK}.get(self.nvdimm or "", TEST_DISK)

    @property
    def mkfs_commands(self) -> list[list[str]]:
        """The commands that make its file system, to be run in their order."""
        if not (mkfs := self.file_system.mkfs):
            return []
        if self.nvdimm == "cache":
            return [_JOIN_CACHE, [*mkfs, *self.mkfs, self.device]]
        if self.nvdimm != "journal":
            return [[*mkfs, *self.mkfs, self.device]]
        journal = ["mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", NVDIMM_DEVICE]
        return [journal, [*mkfs, *self.mkfs, "-J", f"device={NVDIMM_DEVICE}", self.device]]

    def _durable_at_once(self, power: bool) -> bool:
        """Whether what a program writes survives a reset, or with `power` a loss of power, without fsync."""
        return "sync" in self.mount.split(",") or (self.restores_memory and not power)

    @property
    def needs_fsync(self) -> bool:
        """Whether a reset may lose what a program has written, and fsync prevents that."""
        return self.file_system.survives and not self._durable_at_once(power=False)

    def loses(self, power: bool) -> bool:
        """Whether a reset, or with `power` a loss of power, takes the newest steps of a workload.

        A workload is told to fsync where the mode says so.
        """
        return not self.file_system.survives or not (self._durable_at_once(power) or self.tells_fsync)

    @property
    def judged_by(self) -> PromiseKind:
        """The promise that it is judged by: each step, or what was synced."""
        # What is lost in any crash is a control that the check finds it.
        each = not self.file_system.survives or not self.loses(power=False)
        return self.promise or ("steps" if each else "synced")

    @property
    def promised(self) -> Promise | None:
        """What a mode promises that is judged by what was synced; None of others."""
        if self.judged_by == "steps":
            return None
        window = self.loss_window_s or window_s(self.filesystem, self.mount, self.sysctls)
        return Promise(broken_states(self.filesystem, self.mkfs, self.mount), window)

    @property
    def tells_fsync(self) -> bool:
        """Whether a workload that can make its steps durable is told to do so."""
        return self.sync_writes or self.sync_on_close

    @field_validator("kernel_parameters", "sysctls")
    @classmethod
    def _are_free(cls, value: Names) -> Names:
        with as_value_error():
            parameters.check_free(value)
        return value

    @field_validator("filesystem")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in FILE_SYSTEMS:
            raise ValueError(f"unknown file system {value!r}; there are: {', '.join(FILE_SYSTEMS)}")
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> "CacheMode":
        if self.promise == "steps" and self.loses(power=False):
            raise ValueError(
                "promise: this mode makes no step durable by itself; add sync_writes, or leave promise out"
            )
        if self.promise == "synced" and not self.file_system.survives:
            raise ValueError(f"promise: {self.filesystem} keeps nothing that was synced; leave it out")
        if self.loss_window_s is not None and self.judged_by == "steps":
            raise ValueError(
                "loss_window_s: this mode may lose no step; leave it out, or set promise: synced"
            )
        if self.filesystem != "ext4":
            if self.restores_memory:
                raise ValueError(f"restores_memory: recovery supports ext4 only, not {self.filesystem}")
            if "rio" in self.mount.split(","):
                raise ValueError(f"mount: rio is an option of ext4, not of {self.filesystem}")
        if self.mkfs and not self.file_system.mkfs:
            raise ValueError(f"mkfs: {self.filesystem} has no mkfs, it is only mounted; remove this key")
        if self.nvdimm and (self.restores_memory or not self.mkfs_commands):
            raise ValueError("nvdimm: the file system of this mode is restored from RAM or lies in it")
        if self.nvdimm == "journal" and self.filesystem != "ext4":
            raise ValueError(f"nvdimm: only ext4's journal can be elsewhere, not that of {self.filesystem}")
        names = [device.name for device in self.devices]
        if len(set(names)) != len(names):
            raise ValueError("devices: a name is used twice")
        return self

    @property
    def file_system(self) -> FileSystem:
        """Its file system's entry in FILE_SYSTEMS."""
        return FILE_SYSTEMS[self.filesystem]

    @property
    def stage0_size(self) -> int:
        """Bytes that stage 0 needs whatever RAM there is; a distribution's kernel is large."""
        if self.kernel and self.kernel.ready:
            return LARGE_STAGE0_SIZE
        return STAGE0_SIZE if self.filesystem == "ext4" else OTHERS_STAGE0_SIZE

    def check_machine(self, machine: MachineSpec) -> None:
        """Raise UsageError if the mode does not fit that machine."""
        if self.nvdimm and not machine.nvdimm_mib:
            raise UsageError("it needs an NVDIMM; set machine.nvdimm_mib")
        if self.nvdimm == "cache" and machine.nvdimm_used_mib > _LARGEST_CACHE_MIB:
            raise UsageError(
                f"stage 0 has no memory for a cache of more than {_LARGEST_CACHE_MIB} MiB; make "
                "machine.nvdimm_mib smaller"
            )
        if self.nvdimm == "memory" and machine.nvdimm_used_mib < _SMALLEST_MEMORY_MIB:
            raise UsageError(
                f"the kernel adds no NVDIMM of less than {_SMALLEST_MEMORY_MIB} MiB to memory; make "
                "machine.nvdimm_mib larger"
            )
        place, key, mib = self._place(machine)
        if mib < self.file_system.smallest_mib:
            raise UsageError(
                f"{self.filesystem} needs {place} of {self.file_system.smallest_mib} MiB, machine.{key} is "
                f"{mib}; make it larger"
            )
        limits = [self.disk_throttle(machine), *(device.throttle for device in self.devices)]
        if machine.icount and any(limit != Throttle() for limit in limits):
            raise UsageError("throttle needs the host's clock, which machine.icount excludes; remove one")
        if self.cache_share:
            self._check_share(self.cache_share, machine)

    def _place(self, machine: MachineSpec) -> tuple[str, str, int]:
        """Return what the file system under test is on, its key in the spec, and its size in MiB."""
        if self.nvdimm == "filesystem":
            key = "nvdimm_mib without canary_mib" if machine.canary_mib else "nvdimm_mib"
            return "an NVDIMM", key, machine.nvdimm_used_mib
        return "a disk", "disk_mib", machine.disk_mib

    def disk_throttle(self, machine: MachineSpec) -> Throttle:
        """Return how fast the disk under test is on that machine."""
        return machine.throttle if self.throttle is None else self.throttle

    def _check_share(self, share: float, machine: MachineSpec) -> None:
        ram = machine.memory_mib * MIB
        place, place_key, mib = self._place(machine)
        for what, room, key in (
            ("the file cache", Layout(ram, self.stage0_size).cache_room, "memory_mib"),
            (place, int(_DISK_FOR_FILES * mib * MIB), place_key),
        ):
            if share * ram > room:
                raise UsageError(
                    f"cache_share {share:g} is {share * ram / MIB:.0f} MiB of files, {what} has room for "
                    f"{room // MIB} MiB; make machine.{key} larger"
                )

    def arms(self, name: str, shares: Iterable[float]) -> dict[str, "CacheMode"]:
        """Return the mode once for each share of RAM that files fill, by the name NAME-PERCENTpct."""
        return {
            f"{name}-{percent}pct": self.model_copy(
                update={"cache_share": share, "summary": f"{self.summary}; files fill {percent} % of RAM"}
            )
            for share in shares
            for percent in [round(100 * share)]
        }

    def beside(self, folder: Path) -> "CacheMode":
        """Return a copy in which the kernel's file names, relative to `folder`, are absolute."""
        return self.model_copy(update={"kernel": self.kernel.beside(folder)}) if self.kernel else self

    def default_machine(self) -> MachineSpec:
        """Return the machine for this mode where no spec describes one."""
        usual, smallest = MachineSpec(), self.file_system.smallest_mib
        nvdimm = _SMALLEST_MEMORY_MIB if self.nvdimm == "memory" else max(_USUAL_NVDIMM_MIB, smallest)
        return usual.model_copy(
            update={"disk_mib": max(usual.disk_mib, smallest), "nvdimm_mib": nvdimm if self.nvdimm else 0},
        )

    @property
    def nvdimm_parameters(self) -> list[str]:
        """Parameters that tell either stage what it has the NVDIMM for."""
        return [f"{parameters.NVDIMM}={self.nvdimm}"] if self.nvdimm else []

    def production_parameters(self, layout: Layout) -> list[str]:
        """Return the parameters of this mode's production kernel for that memory layout."""
        words = [f"{parameters.MOUNT}={self.mount}", *self.nvdimm_parameters]
        if self.filesystem != "ext4":
            words.append(f"{parameters.FILESYSTEM}={self.filesystem}")
        if self.sysctls:
            words.append(f"{parameters.SYSCTL}=" + ",".join(f"{k}={v}" for k, v in self.sysctls.items()))
        if self.restores_memory or _CLOSED in self.kernel_parameters:
            words += [f"{parameters.REGISTRY}={layout.registry}", f"{parameters.KEEPOUT}={layout.keepout}"]
        if self.panic_sync_s:
            words.append(f"{parameters.PANIC_SYNC}={self.panic_sync_s}")
        return words + list(self.kernel_parameters)


def parse_modes(
    text: str | bytes, what: str, known: dict[str, CacheMode] | None = None
) -> dict[str, CacheMode]:
    """Parse a text like modes.yaml into modes by name; UsageError with a line that starts with `what`.

    Its modes may be like `known` ones.
    """
    data = parse_yaml(text, what)
    try:
        modes = unfold(data, known or {}) if isinstance(data, dict) else data
        return TypeAdapter(dict[ModeName, CacheMode]).validate_python(modes)
    except ValidationError as error:
        raise UsageError(f"{what}: {complaint(error, 'file')}") from None
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def unfold(modes: dict[Any, Any], known: dict[str, CacheMode]) -> dict[Any, Any]:
    """Return modes of a YAML file with all of their keys: `like` names a mode whose keys they have, too.

    That is a `known` mode or one further up; UsageError if it is neither. Nothing inherits a summary.
    """
    unfolded: dict[Any, Any] = {}
    for name, mode in modes.items():
        if isinstance(mode, dict) and "like" in mode:
            other = _named(str(mode["like"]), known | unfolded)
            keys = other if isinstance(other, dict) else other.model_dump(mode="json", exclude_defaults=True)
            inherited = {key: value for key, value in keys.items() if key != "summary"}
            unfolded[name] = inherited | {key: value for key, value in mode.items() if key != "like"}
        else:
            unfolded[name] = mode
    return unfolded


def read_modes(path: Path) -> dict[str, CacheMode]:
    """Read a user's own modes; UsageError if the file cannot be used."""
    what = f"modes {path}"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{what}: {error.strerror}; docs/own-mode.md has an example") from None
    modes = parse_modes(text, what, all_modes())
    for name in modes:
        not_shipped(name, what)
    return {name: mode.beside(path.parent) for name, mode in modes.items()}


def not_shipped(name: str, what: str) -> None:
    """Raise UsageError if a user's own mode has the name of a shipped one."""
    if name in all_modes():
        raise UsageError(f"{what}: {name!r} is the name of a shipped mode; choose another")


@cache
def all_modes() -> dict[str, CacheMode]:
    """Return every shipped cache mode by name, in the order of modes.yaml."""
    return parse_modes(files("riobed.guest").joinpath("modes.yaml").read_text(encoding="utf-8"), "modes.yaml")


def find_mode(name: str, file: Path | None) -> CacheMode:
    """Return the mode of that name, shipped or from a user's file; UsageError if there is none."""
    return cache_mode(name, read_modes(file) if file else None)


def cache_mode(name: str, own: dict[str, CacheMode] | None = None) -> CacheMode:
    """Return the mode of that name, shipped or from `own`; UsageError with all names if there is none."""
    return _named(name, all_modes() | (own or {}))


def _named(name: str, known: dict[Any, Mode]) -> Mode:
    try:
        return known[name]
    except KeyError:
        raise UsageError(f"unknown cache mode {name!r}; there are: {', '.join(map(str, known))}") from None
