# SPDX-License-Identifier: Apache-2.0
"""A workload: a folder whose workload.yaml says how to start, stop and check it."""

import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from riobed.errors import UsageError, complaint
from riobed.products import unpacking
from riobed.yamltext import parse_yaml

FILE = "workload.yaml"
# In the guest: the workload's folder, and its directory on the file system under test.
GUEST_FOLDER = "/workload"
GUEST_DIR = "/mnt/test/workload"
# Two ways into the same log: a device that any program can write to, and an I/O port that needs no driver.
PROGRESS_PORT = "/dev/virtio-ports/org.riobed.progress"
PROGRESS_IO_PORT = "0x403"
# How many processes can report to it in streams: a stream's number has three bits of a byte.
STREAMS = 8
# Further keys are `measure` and `check_measured`, which may have several.
_COMMANDS = ("prepare", "start", "stop", "places", "check", "contents")
_NOTHING: dict[str, int | str] = {"done": 0, "intent": 0, "failed": "", "oldest": 0}


@dataclass(frozen=True)
class WorkloadSlot:
    """Where a workload is in the guest: its folder, its directory on the file system under test, its streams.

    `stream` is the number of the first of its streams.
    """

    folder: str = GUEST_FOLDER
    dir: str = GUEST_DIR
    stream: int = 0

    @property
    def on_host(self) -> "WorkloadSlot":
        """The same with the folder as it is below the folder that has all of the image's on the host."""
        return replace(self, folder=self.folder.replace(GUEST_FOLDER, ".", 1))


PartName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
# A command, or one for each part of the work by its name.
Parts = str | Annotated[dict[PartName, str], Field(min_length=1)]
# The name of a Debian package (Debian policy, section 5.6.1), which has a program of that name.
ProgramName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
_PROGRAMS = Path(__file__).with_name("programs.sh")


class Fill(BaseModel):
    """How `prepare` fills the file cache: `bytes` and the value of `plus` for each unit of `option`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    option: str
    bytes: Annotated[int, Field(ge=1)]
    plus: str | None = None


class Workload(BaseModel):
    """The content of workload.yaml. sh runs the commands in the guest, with /workload as current directory.

    Placeholders in commands:

    - {dir}: the workload's directory on the file system under test
    - {seed}: the trial's 64-bit seed
    - {progress}: the device to which steps are reported
    - {progress_port}: an I/O port for the same reports; no driver is involved that a fault could break
    - {stream}: the number of the first of the workload's streams
    - {done}, {intent}: the last step reported as done and the last one announced; 0 if none. With streams, a
      list of numbers joined by commas
    - {failed}: the steps that were reported as failed, as `STEP:NAME` joined by commas; empty if none. With
      streams, a list of these joined by slashes
    - {oldest}: the oldest step as after which the files may be: {done}, or after a loss of power 0 in modes
      that may lose the newest steps
    - {fsync}: "--fsync" in modes that make each step durable, otherwise empty. In `measure` it is empty with
      `sync_on_close`, too: there a program pays for what it closes, not for what it calls a step
    - {needs_fsync}: "--fsync" in modes in which what is written may be lost without it, otherwise empty
    - {defer}: "--defer FILE" if the host compares bytes of files (see `contents`), otherwise empty
    - {option:NAME}: an entry of `options`

    `programs` are Debian packages with a program of the same name, which ./NAME runs, with its own libraries;
    `build` comes after them and finds what the packages have in ./unpacked, which is then removed.

    After `stop` the workload finishes its current step and ends. `places` then says which bytes `check`
    looks at, if not at all of its files: a line with offset, length and path in {dir} for each piece.

    With {defer}, `check` leaves the bytes of files that have the right size to `contents`, and writes their
    paths in {dir} to that file, one a line. `contents` runs on the host, in the folder as it was built, and
    gets these files on standard input: for each a line `SIZE PATH`, then SIZE bytes. It prints the paths of
    those that differ, one a line, and ends as a check does.

    `measure` is work of fixed size for `riobed bench`; it starts from where `prepare`
    ended. It may have parts, which are done one after the other and timed apart: a command for each by its
    name. `measure_operations` is a number: how many operations on files that is, by what the workload does,
    not by what the kernel makes of it. `measure_mib` is how many MiB it writes to files. Either may be a sum
    of numbers, with + between them. `check_measured` is the check after `measure`, if that of a crash cannot
    judge it: it may be a command for each of some parts, by name, of what that part leaves to the next one.
    `fill` is for modes with a `cache_share`. A workload is `confined` if after `prepare` it changes nothing
    outside {dir}: then what is there is compared after a crash, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    description: str
    oracle: str = ""
    programs: tuple[ProgramName, ...] = ()
    build: str | None = None
    prepare: str | None = None
    start: str
    stop: str | None = None
    places: str | None = None
    measure: Parts | None = None
    measure_operations: str | None = None
    measure_mib: str | None = None
    check_measured: Parts | None = None
    check: str
    contents: str | None = None
    progress: Literal["memtest", "none"] = "none"
    # How many processes report, each in a stream of its own; 0: one, whose records are in no stream.
    streams: Annotated[int, Field(ge=0, le=STREAMS)] = 0
    options: dict[str, str | int] = {}
    fill: Fill | None = None
    confined: bool = False

    @property
    def built_by(self) -> str | None:
        """A text for sh that makes what is not in the folder; None if everything is."""
        if not self.programs:
            return self.build
        made = unpacking(self.programs) + _PROGRAMS.read_text(encoding="utf-8")
        return f"{made}\n{self.build or ':'}\nrm -r unpacked\n"

    @property
    def measured(self) -> dict[str, str]:
        """The commands of `measure` by the name of the part; the name of a whole is empty."""
        return {"": self.measure} if isinstance(self.measure, str) else self.measure or {}

    @property
    def checks(self) -> dict[str, str]:
        """The checks of what `measure` leaves, by the part after which they come; the last part has one."""
        given, names = self.check_measured or self.check, [*self.measured]
        of_part = dict.fromkeys(names[-1:], given) if isinstance(given, str) else given
        return {name: of_part.get(name, self.check) for name in names if name in of_part or name == names[-1]}

    def filling(self, size: float, given: dict[str, str | int]) -> dict[str, str | int]:
        """Return the option that makes `prepare` fill `size` bytes of cache; UsageError without `fill`.

        `given`: the other options that are not as in the file.
        """
        if not self.fill:
            raise UsageError(
                f"workload {self.name}: it cannot fill a cache_share; give it `fill` in {FILE}, or leave "
                "cache_share out"
            )
        more = (self.options | given)[self.fill.plus] if self.fill.plus else 0
        if not isinstance(more, int):
            raise UsageError(
                f"workload {self.name}: option {self.fill.plus}: want a whole number, not {more!r}"
            )
        return {self.fill.option: round(size / (self.fill.bytes + more))}


class _Options(dict[str, str]):
    """The value of `option` for str.format, which passes NAME of {option:NAME} as format specification."""

    def __format__(self, name: str) -> str:
        return self[name]


class _Placeholders(string.Formatter):
    """Accepts plain names only: attributes, items and conversions would bypass the quoting."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs[field_name], field_name

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion:
            raise ValueError(f"!{conversion}")
        return value


def load_workload(folder: Path) -> Workload:
    """Read the workload in a folder; UsageError if workload.yaml is missing or not valid."""
    path = folder / FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"workload {folder}: {FILE}: {error.strerror}; a workload is a folder with that file"
        ) from None
    try:
        workload = Workload.model_validate(parse_yaml(text, f"workload {path}"))
    except ValidationError as error:
        raise UsageError(f"workload {path}: {complaint(error, 'file')}") from None
    for name in (workload.fill.option, workload.fill.plus) if workload.fill else ():
        if name and name not in workload.options:
            raise UsageError(f"workload {path}: fill: there is no option {name!r}")
    templates = {key: getattr(workload, key) for key in _COMMANDS}
    templates |= {f"measure.{part}".rstrip("."): text for part, text in workload.measured.items()}
    templates |= {f"check_measured.{part}".rstrip("."): text for part, text in workload.checks.items()}
    for key, template in templates.items():
        if template is not None:
            _try_placeholders(path, key, template, workload)
    return workload


def _try_placeholders(path: Path, key: str, template: str, workload: Workload) -> None:
    try:
        command(template, workload, seed=0, sync=False)
    except (KeyError, ValueError) as error:
        raise UsageError(f"workload {path}: {key}: bad placeholder {error}") from None


def command(
    template: str,
    workload: Workload,
    *,
    seed: int,
    sync: bool,
    needs_fsync: bool = False,
    defer: str = "",
    options: Mapping[str, str | int] | None = None,
    slot: WorkloadSlot | None = None,
    **reported: int | str,
) -> list[str]:
    """Fill in one of the workload's commands; return it as an argument vector for the guest.

    `reported` has values of {done}, {intent}, {failed} and {oldest}; without them nothing has been reported.
    `defer` is the file of {defer}, if there is one.
    """
    slot = slot or WorkloadSlot(GUEST_FOLDER)
    text = filled(
        template,
        workload,
        options,
        dir=slot.dir,
        seed=seed,
        progress=PROGRESS_PORT,
        progress_port=PROGRESS_IO_PORT,
        stream=slot.stream,
        fsync="--fsync" if sync else "",
        needs_fsync="--fsync" if needs_fsync else "",
        defer=f"--defer {defer}" if defer else "",
        **{name: shlex.quote(str(value)) for name, value in {**_NOTHING, **reported}.items()},
    )
    # Not `exec TEXT`: it would run only the first command of "a; b", and a check could be skipped unnoticed.
    return ["/bin/sh", "-c", f"cd {slot.folder} || exit\n{text}"]


def filled(
    template: str, workload: Workload, options: Mapping[str, str | int] | None = None, **values: str | int
) -> str:
    """Fill in a template's options and these values; KeyError or ValueError for another placeholder."""
    quoted = {key: shlex.quote(str(value)) for key, value in {**workload.options, **(options or {})}.items()}
    return _Placeholders().vformat(template, (), {**values, "option": _Options(quoted)})


def check_options(folder: Path, workload: Workload, options: dict[str, str | int]) -> None:
    """Raise UsageError if a spec sets an option that the workload does not have."""
    for name in options:
        if name not in workload.options:
            known = ", ".join(workload.options) or "none"
            raise UsageError(f"workload {folder}: no option {name!r}; there are: {known}")


@dataclass(frozen=True)
class Beside:
    """A workload that runs beside the one that is judged."""

    workload: Workload
    options: Mapping[str, str | int]
    slot: WorkloadSlot

    def text(
        self,
        key: str,
        *,
        seed: int,
        sync: bool,
        needs_fsync: bool = False,
        defer: str = "",
        on_host: bool = False,
        **reported: int | str,
    ) -> str:
        """Return one of its commands for sh; nothing if it does not have that one."""
        template = getattr(self.workload, key) or ":"
        argv = command(
            template,
            self.workload,
            seed=seed,
            sync=sync,
            needs_fsync=needs_fsync,
            defer=defer,
            options=self.options,
            slot=self.slot.on_host if on_host else self.slot,
            **reported,
        )
        return argv[-1]


def beside_folder(number: int) -> str:
    """Return the name of the folder, in the workload's, of the workload beside it with that number."""
    return f"beside{number}"


def put_beside(main: Workload, others: Sequence[tuple[Workload, Mapping[str, str | int]]]) -> list[Beside]:
    """Give each of `others` its slot; UsageError if their reports could not be told apart."""
    stream, placed = main.streams, []
    for number, (workload, options) in enumerate(others):
        if workload.progress != "none" and not workload.streams:
            raise UsageError(f"workload {workload.name}: cannot run beside another one: it has no `streams`")
        folder = beside_folder(number)
        slot = WorkloadSlot(f"{GUEST_FOLDER}/{folder}", f"{GUEST_DIR}-{folder}", stream)
        placed.append(Beside(workload, options, slot))
        stream += workload.streams
    if stream > STREAMS:
        raise UsageError(f"workloads: {stream} processes report, but there are only {STREAMS} streams")
    return placed
