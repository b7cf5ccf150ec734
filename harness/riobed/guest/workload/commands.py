# SPDX-License-Identifier: Apache-2.0
"""The commands of a workload in a cache mode, as argument vectors for the guest or texts for its shell."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from riobed_results.store import PromiseKind

from riobed.errors import InfraError
from riobed.guest.memory.layout import MIB
from riobed.guest.settings.modes import CacheMode
from riobed.guest.workload import description
from riobed.guest.workload.description import GUEST_DIR, Beside, Workload, WorkloadSlot
from riobed.guest.workload.tree import script

# Commands that are for all workloads, and what follows each but the last.
_TOGETHER = {"prepare": " || exit", "start": " >/dev/null 2>&1 &", "stop": ""}
# Commands that put load on the file system under test; with `sync_on_close` their programs load a library.
_LOADS = ("start", "measure")
_SYNC_ON_CLOSE = "/usr/lib/riobed/sync-on-close.so"
# In the guest: the paths of files whose bytes a check left to the host.
DEFERRED = "/run/deferred"


@dataclass(frozen=True)
class Check:
    """How the files of one workload, in the guest's folder `dir`, are checked: by a command in the guest.

    `deferring` is the same command, but it leaves bytes to `contents`, a command for the host, and lists
    these files in DEFERRED. Both are None if the workload has no such command.
    """

    dir: str
    argv: list[str]
    deferring: list[str] | None = None
    contents: list[str] | None = None


@dataclass(frozen=True)
class ModeWorkload:
    """A guest's workload, or none, with its options, and those beside it, as they run in a mode."""

    workload: Workload | None
    mode: CacheMode
    options: Mapping[str, str | int]
    beside: tuple[Beside, ...] = ()

    @property
    def reports_steps(self) -> bool:
        """Whether the workload reports its steps."""
        return bool(self.workload and self.workload.progress != "none")

    @property
    def streams(self) -> int:
        """How many processes of the workload report, each in a stream of its own; 0: one, in no stream."""
        return self.workload.streams if self.workload else 0

    @property
    def judged_by(self) -> PromiseKind:
        """The promise that its files are judged by: the mode's, if its check knows what was synced."""
        return self.mode.judged_by if self.workload and "{oldest}" in self.workload.check else "steps"

    @property
    def names_places(self) -> bool:
        """Whether the workload says which bytes its check looks at, rather than all of its files."""
        return self._needed.places is not None

    def command(self, key: str, *, seed: int, **reported: int | str) -> list[str]:
        """Return one of the workload's commands; `key` is its key in workload.yaml.

        `reported` is what the check must know: the values of {done}, {intent}, {failed} and {oldest}.
        """
        argv = self._filled(key, getattr(self._needed, key) or ":", seed, "", False, **reported)
        # The others first: the command's status is that of the workload itself.
        for beside in self.beside if key in _TOGETHER else ():
            text = self._beside_text(beside, key, seed)
            argv[-1] = f"(\n{text}\n){_TOGETHER[key]}\n{argv[-1]}"
        return argv

    @property
    def prepare(self) -> list[str] | None:
        """The command that makes the files of all workloads before the snapshot; None if none has one."""
        have = [self.workload, *(beside.workload for beside in self.beside)]
        return self.command("prepare", seed=0) if any(each and each.prepare for each in have) else None

    def measured(self, seed: int) -> dict[str, str]:
        """Return the texts for sh of the parts of the workload's `measure`, by name."""
        parts = self._needed.measured
        return {name: self._filled("measure", template, seed)[-1] for name, template in parts.items()}

    def checks(self, seed: int) -> dict[str, list[str]]:
        """Return the checks of what `measure` leaves, by the part after which they come, in that order."""
        return {name: self._filled("check", text, seed) for name, text in self._needed.checks.items()}

    def check(self, beside: Beside | None = None, *, seed: int, **reported: int | str) -> Check:
        """Return the check of the workload that is judged, or of one beside it."""
        workload = beside.workload if beside else self._needed

        def filled(key: str, defer: str = "", on_host: bool = False) -> list[str]:
            if beside:
                text = self._beside_text(beside, key, seed, defer=defer, on_host=on_host, **reported)
                return ["/bin/sh", "-c", text]
            template = getattr(workload, key)
            return self._filled(key, template, seed, defer=defer, on_host=on_host, **reported)

        whole = Check(beside.slot.dir if beside else GUEST_DIR, filled("check"))
        if not workload.contents:
            return whole
        deferring, contents = filled("check", defer=DEFERRED), filled("contents", on_host=True)
        return replace(whole, deferring=deferring, contents=contents)

    @property
    def measure_operations(self) -> int | None:
        """How many operations on files `measure` is; None if the workload does not say."""
        return self._number(self.workload.measure_operations) if self.workload else None

    @property
    def measure_bytes(self) -> int | None:
        """How many bytes `measure` writes to files; None if the workload does not say."""
        mib = self._number(self.workload.measure_mib) if self.workload else None
        return None if mib is None else mib * MIB

    @property
    def list_outside(self) -> str:
        """A text for sh that lists what no workload changes: all that is outside their folders.

        Empty if a workload does not say that it stays in its own.
        """
        if not all(each and each.confined for each in (self.workload, *(b.workload for b in self.beside))):
            return ""
        return script([GUEST_DIR, *(beside.slot.dir for beside in self.beside)], times=True)

    @property
    def _needed(self) -> Workload:
        if not self.workload:
            raise InfraError("a guest without a workload has no commands")
        return self.workload

    def _filled(
        self,
        key: str,
        template: str,
        seed: int,
        defer: str = "",
        on_host: bool = False,
        **reported: int | str,
    ) -> list[str]:
        argv = description.command(
            template,
            self._needed,
            seed=seed,
            # A measured program makes durable what the mode promises, and nothing else.
            sync=self.mode.sync_writes if key == "measure" else self.mode.tells_fsync,
            needs_fsync=self.mode.needs_fsync,
            defer=defer,
            options=self.options,
            slot=WorkloadSlot().on_host if on_host else None,
            **reported,
        )
        if key in _LOADS and self.mode.sync_on_close:
            # A shell of its own, which has the library, too: it opens and closes files for its commands.
            argv[-1] = f"LD_PRELOAD={_SYNC_ON_CLOSE} exec /bin/sh -c {shlex.quote(argv[-1])}"
        return argv

    def _beside_text(
        self,
        beside: Beside,
        key: str,
        seed: int,
        defer: str = "",
        on_host: bool = False,
        **reported: int | str,
    ) -> str:
        return beside.text(
            key,
            seed=seed,
            sync=self.mode.tells_fsync,
            needs_fsync=self.mode.needs_fsync,
            defer=defer,
            on_host=on_host,
            **reported,
        )

    def _number(self, template: str | None) -> int | None:
        if template is None:
            return None
        return sum(map(int, description.filled(template, self._needed, self.options).split("+")))
