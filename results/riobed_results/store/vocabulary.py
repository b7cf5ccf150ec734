# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of a campaign: what the names in its rows mean. It is stored with it when it starts.

Tables and controls read it and know no names, so a user's own mode is judged like a shipped one.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from riobed_results.store.trial import LOSSES_OF_POWER, Corruption


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


Elsewhere = Literal["never", "in a step", "always"]


class PlantedKind(_Part):
    """A kind of planted change: its name in tables, and how a check must class the corruption.

    `elsewhere` is when no file needs to differ after it: always if recovery may put it right, or if it is in
    no file. Of what a step in flight writes any part may be missing, so a change may go with it.
    What `checks_itself` is told apart without checksums of cached pages.
    """

    title: str
    found_as: Corruption
    elsewhere: Elsewhere = "never"
    checks_itself: bool = False


class Vocabulary(_Part):
    """What names mean.

    `lost_at_reset` and `lost_at_power` are the modes that lose what was written last, when the machine is
    reset and when it loses power. `restart` is how the campaign's machine restarts. `must_lose`: its workload
    has a bug that loses data in each mode. Faults of `run_time_classes` are the same in every kernel; those
    of other classes are locations in one kernel's text. `endpoint` is the definition of corruption by which
    its modes are compared.
    """

    modes: tuple[str, ...] = ()
    lost_at_reset: tuple[str, ...] = ()
    lost_at_power: tuple[str, ...] = ()
    restart: str | None = None
    must_lose: bool = False
    run_time_classes: tuple[str, ...] = ()
    planted: dict[str, PlantedKind] = {}
    endpoint: str = "corruption"

    @property
    def losing(self) -> frozenset[str]:
        """The modes in which what follows a crash of the campaign must lose data."""
        if self.must_lose:
            return frozenset(self.modes)
        return frozenset(self.lost_at_power if self.restart in LOSSES_OF_POWER else self.lost_at_reset)

    def kind(self, name: str) -> PlantedKind:
        """Return a kind of planted change; of one that the vocabulary lacks nothing is known but its name."""
        return self.planted.get(name, PlantedKind(title=name, found_as="unclassified"))


# The names that riobed had before campaigns stored a vocabulary.
_LOST_AT_RESET = frozenset({
    "delayed", "delayed-no-journal", "delayed-xfs", "delayed-btrfs", "dirsync", "memory", "nv-swap",
    "nv-memory",
})  # fmt: skip
# Shipped modes of these names keep files in memory alone, so a loss of power takes all of them.
_IN_MEMORY = "rio"
_RUN_TIME_CLASSES = frozenset({
    "allocation", "copy_overrun", "kernel_heap", "kernel_stack", "none", "panic", "planted",
    "synchronization",
})  # fmt: skip
_PLANTED: dict[str, tuple[str, Corruption]] = {
    "stray": ("in a cached page", "direct"),
    "entry": ("in an entry of the registry", "direct"),
    "block": ("in a block of the disk", "indirect"),
    "written": ("written to a file", "indirect"),
    "directory": ("in a directory", "direct"),
    "inode": ("in an inode", "direct"),
    "xattr": ("in an extended attribute", "direct"),
    "bitmap": ("in a bitmap", "direct"),
    "journal": ("in the journal", "unclassified"),
    "writecache": ("in the metadata of dm-writecache", "unclassified"),
    "canary": ("in the canary", "direct"),
}
_ELSEWHERE: dict[str, Elsewhere] = {
    "bitmap": "always",
    "journal": "always",
    "canary": "always",
    "entry": "in a step",
}


def before_vocabularies(spec: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary of a campaign of schema 4 or older, by the names in its spec."""
    given, listed = spec.get("own_modes"), spec.get("modes")
    found = given.items() if isinstance(given, dict) else ()
    own = {str(name): mode for name, mode in found if isinstance(mode, dict)}
    modes = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    in_memory = {name for name in modes if name not in own and name.startswith(_IN_MEMORY)}
    lost = {
        where: {name for name, mode in own.items() if _loses(mode, where)} for where in ("reset", "power")
    }
    restart = spec.get("restart")
    return Vocabulary(
        modes=tuple(modes),
        lost_at_reset=tuple(sorted(_LOST_AT_RESET - own.keys() | lost["reset"])),
        lost_at_power=tuple(sorted(_LOST_AT_RESET - own.keys() | lost["power"] | in_memory)),
        restart=restart if isinstance(restart, str) else None,
        must_lose=spec.get("must_lose") is True,
        run_time_classes=tuple(sorted(_RUN_TIME_CLASSES)),
        planted={
            name: PlantedKind(
                title=title,
                found_as=found_as,
                elsewhere=_ELSEWHERE.get(name, "never"),
                checks_itself=name == "entry",
            )
            for name, (title, found_as) in _PLANTED.items()
        },
    )


def _loses(mode: Mapping[str, Any], where: str) -> bool:
    """Whether an own mode of a stored spec makes nothing durable at once; default keys are not stored."""
    synchronous = "sync" in str(mode.get("mount", "")).split(",")
    restored = mode.get("restores_memory") and where == "reset"
    kept = synchronous or mode.get("sync_writes") or mode.get("sync_on_close") or restored
    return mode.get("filesystem") == "tmpfs" or not kept
