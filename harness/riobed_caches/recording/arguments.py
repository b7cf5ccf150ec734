# SPDX-License-Identifier: Apache-2.0
"""Recording/Arguments: the meaning of single arguments as strace prints them."""

import re
from dataclasses import dataclass

# strace -y prints the path of a descriptor behind it with `<` and `>` escaped, and -yy a device behind that.
_DESCRIPTOR = re.compile(rb"(-?\d{1,10}|AT_FDCWD)(?:<(/[^<>]*)(?:<[^<>]*>)?>(\(deleted\))?|<.*>)?", re.DOTALL)
_SHOWN = re.compile(rb"<(/[^<>]*)(?:<[^<>]*>)?>(\(deleted\))?", re.DOTALL)
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b"}
_POINTED = re.compile(rb"\[(-?\d{1,20})\].*", re.DOTALL)
_STAT = re.compile(rb"\bstx?_mode=(S_IF\w+).*?\bstx?_size=(\d{1,19})\b", re.DOTALL)
# No regular files of a disk: pseudo file systems, and memfd_create(2).
_OUTSIDE = (b"/proc/", b"/dev/", b"/sys/", b"/memfd:", b"/SYSV", b"/anon_hugepage")


@dataclass(frozen=True, slots=True)
class Shown:
    """A descriptor as strace shows it; `path` is None if it stands for no file of a disk.

    `fd` is -1 for AT_FDCWD.
    """

    fd: int
    path: bytes | None
    deleted: bool = False


def descriptor(arg: bytes) -> Shown:
    """Parse `3</path>`, `3<pipe:[1]>`, `AT_FDCWD</path>`. ValueError if it is none."""
    found = _DESCRIPTOR.fullmatch(arg)
    if found is None:
        raise ValueError(f"no descriptor: {arg!r}")
    fd = -1 if found[1] == b"AT_FDCWD" else int(found[1])
    path = None if found[2] is None else unescaped(found[2])
    return Shown(fd, path, bool(found[3]))


def opened(fd: int, shown: bytes) -> Shown:
    """Parse what stands behind a result that is a descriptor."""
    found = _SHOWN.match(shown)
    return Shown(fd, unescaped(found[1]), bool(found[2])) if found else Shown(fd, None)


def on_disk(path: bytes) -> bool:
    """Say whether a path may be that of a file of a disk."""
    return not path.startswith(_OUTSIDE)


def string(arg: bytes) -> bytes:
    """Return the bytes of a quoted string. ValueError if it is none, or cut."""
    found = _STRING.fullmatch(arg)
    if found is None:
        raise ValueError(f"no string: {arg[:80]!r}")
    return unescaped(found[1])


def unescaped(text: bytes) -> bytes:
    """Undo the escapes of C that strace writes."""

    def plain(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 8) & 0xFF])
        if found[2] is not None:
            return bytes([int(found[2], 16)])
        return _LETTERS.get(found[3], found[3])

    return _ESCAPE.sub(plain, text) if b"\\" in text else text


def flags(arg: bytes) -> frozenset[bytes]:
    """Return the names of `O_RDWR|O_CREAT`, with `0644` and the like among them."""
    return frozenset(arg.split(b"|"))


def pointed(arg: bytes) -> int | None:
    """Return the number behind a pointer, `[5]` or `[5] => [9]`; None for NULL."""
    if arg == b"NULL":
        return None
    found = _POINTED.fullmatch(arg)
    if found is None:
        raise ValueError(f"no pointer to a number: {arg[:80]!r}")
    return int(found[1])


def status(arg: bytes) -> tuple[bytes, int] | None:
    """Return the type and the size of a struct stat or statx; None if it shows none."""
    found = _STAT.search(arg)
    return (found[1], int(found[2])) if found else None
