# SPDX-License-Identifier: Apache-2.0
"""The importers: which events the lines of each format make, and what becomes of wrong files."""

import bz2
import gzip
import lzma
import random
import struct
from pathlib import Path

import pytest
from riobed_caches.errors import TraceError
from riobed_caches.importers import text
from riobed_caches.importers.registry import FORMATS, import_trace
from riobed_caches.trace.check import check_events
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import Trace
from riobed_caches.trace.header import Has

STRACE = """\
1 100.000000 openat(AT_FDCWD</d>, "f", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</d/f>
1 100.000010 write(3</d/f>, "", 5) = 5
"""
# Thread 2 stands behind thread 1, as in the files of MobiGen.
MOBIBENCH = """\
1 0 open data/data O_RDWR|O_CREAT|O_EXCL|O_LARGEFILE 36
1 10 write 36 4
1 30 write 36 4
1 40 fsync 36 0
1 50 close 36 0
1 60 open data/data O_RDWR|O_LARGEFILE 36
1 70 pwrite 36 4096 100
1 65 write 36 1
1 75 read 36 -1
1 80 open "/a" O_WRONLY|O_CREAT|O_TRUNC|O_APPEND|O_LARGEFILE 37
1 81 write 37 3
1 82 unlink "/a" 0
1 83 write 37 2
1 84 close 37 0
1 85 unlink "/b" 0
1 86 open "/c" O_RDONLY|O_LARGEFILE -1
2 20 pread 36 2 3
2 25 read 9 7
2 26 stat64 "/a" 0
"""
MSR = """\
130000000000000005,web,1,Read,40960,8192,77
130000000000010019,web,1,Write,512,1024,5
130000000000010019,src,0,Write,0,512,1
"""
CLOUDPHYSICS = "version,time,op,size,lbn\n1,70,2a,512,11\n1,71,28,6656,40\n1,71,42,8,9\n"
MQSIM = "1000000 4 100 16 0\n1315000 3 7 8 1\n"
DISKSIM = "0.5 0 100 2 1\n13.1911 1 7 1 0\n"
FIU = """\
7000002500 812 cron 24 8 W 8 1 d41d8cd9
7000004500 812 cron 32 8 R 8 1 d41d8cd9
7000000000 812 cron 32 8 R 8 1 d41d8cd9
"""
FIU_CALLS = """\
1 1000000 OPEN 77 4096
2 1005000 WRITE 77 4096 4000 200 APPEND
3 1006000 READ 77 4200 0 100
4 1007000 FDATASYNC 77 4200
5 1008000 CLOSE 77 4200
6 1009000 MMAP 77 4200
"""
NFSDUMP = """\
1.000000 31.03f7 30.0801 T C3 a1 3 lookup fh D name "f" con = XXX len = XXX
1.000100 30.0801 31.03f7 T R3 a1 3 lookup OK fh F ftype 1 mode 1b6 nlink 1 size 2000 ftype 2 nlink 2 status=X
1.000200 31.03f7 30.0801 T C3 a2 7 write fh F off 2000 count 1000 stable U con = XXX len = XXX
1.000300 32.03f7 30.0801 T C3 a2 6 read fh F off 0 count 2000 euid 1f4 con = XXX len = XXX
1.000400 30.0801 31.03f7 T R3 a2 7 write OK ftype 1 size 3000 count 800 stable U status=XXX
1.000500 30.0801 32.03f7 T R3 a2 6 read OK ftype 1 size 3000 count 2000 eof 0 status=XXX
1.000600 31.03f7 30.0801 T C3 a3 15 commit file F off 0 count 0 con = XXX len = XXX
1.000700 30.0801 31.03f7 T R3 a3 15 commit OK ftype 1 size 3000 status=XXX
1.000800 31.03f7 30.0801 T C3 a4 2 setattr fh F size 10 con = XXX len = XXX
1.000900 30.0801 31.03f7 T R3 a4 2 setattr OK  status=XXX pl = XXX
1.001000 31.03f7 30.0801 T C3 a5 f link fh F fh2 D name "g" con = XXX len = XXX
1.001100 30.0801 31.03f7 T R3 a5 f link OK  status=XXX
1.001200 31.03f7 30.0801 T C3 a6 c remove fh D name "f" con = XXX len = XXX
1.001300 30.0801 31.03f7 T R3 a6 c remove OK ftype 2 status=XXX
1.001400 31.03f7 30.0801 T C3 a7 8 create fh D name "h" how X con = XXX len = XXX
1.001500 30.0801 31.03f7 T R3 a7 8 create OK fh H ftype 1 nlink 1 size 0 status=XXX
1.001600 31.03f7 30.0801 T C3 a8 e rename fh D name "h" fh2 D name2 "g" con = XXX len = XXX
1.001700 30.0801 31.03f7 T R3 a8 e rename OK  status=XXX
1.001800 32.03f7 30.0801 U C2 a9 8 write fh H begoff 0 offset 4 tcount 10 con = XXX len = XXX
1.001900 30.0801 32.03f7 U R2 a9 8 write OK ftype 1 size 14 status=XXX
1.002000 30.0801 31.03f7 T R3 ff 6 read OK ftype 1 size 3000 count 2000 eof 0 status=XXX
1.002100 31.03f7 30.0801 T C3 b0 7 write fh F off 0 count 10 stable F con = XXX len = XXX
1.002200 30.0801 31.03f7 T R3 b0 7 write OK ftype 1 size 3000 count 9000000 stable ? status=XXX
1.002300 31.03f7 30.0801 T C3 b1 6 read fh F off 0 count 10 con = XXX len = XXX
"""


def imported(tmp_path: Path, form: str, content: str | bytes) -> Trace:
    path = tmp_path / "foreign"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    trace = import_trace(path, form)
    check_events(trace.columns, path)
    return trace


def shown(trace: Trace) -> list[str]:
    """Say each event as `time kind file`, and what it has of `handle`, offset+length and size."""
    said = []
    for i in range(len(trace)):
        words = [str(trace.time[i]), Event(trace.event[i]).name.lower(), f"f{trace.file[i]}"]
        words += [f"h{trace.handle[i]}"] if trace.handle[i] >= 0 else []
        words += [f"{trace.offset[i]}+{trace.length[i]}"] if trace.offset[i] >= 0 else []
        words += [f"size={trace.size[i]}"] if trace.size[i] >= 0 else []
        said.append(" ".join(words))
    return said


def test_mobibench_tells_files_by_descriptor_and_sorts_threads(tmp_path: Path) -> None:
    trace = imported(tmp_path, "mobibench", MOBIBENCH)
    assert shown(trace) == [
        "0 open f0 h0",
        "10 write f0 h0 0+4",
        "20 read f0 h0 2+3",
        "25 read f1 0+7",
        "30 write f0 h0 4+4",
        "40 fsync f0 h0",
        "50 close f0 h0",
        "60 open f2 h1",
        "70 write f2 h1 4096+100",
        "80 open f3 h2",
        "81 write f3 h2 0+3",
        "83 write f3 h2 3+2",
        "84 close f3 h2",
        "84 delete f3",
    ]
    assert (trace.header.skipped, trace.header.first_skipped) == (1, [8])
    assert [int(said.split()[0]) for said in trace.header.blind[1:]] == [1, 1]
    assert trace.flags[0] == Flag.FOR_READING | Flag.FOR_WRITING | Flag.CREATED


@pytest.mark.parametrize(
    ("form", "content", "wanted"),
    [
        ("msr", MSR, ["0 read f0 40960+8192", "1001 write f0 512+1024", "1001 write f1 0+512"]),
        ("cloudphysics", CLOUDPHYSICS, ["0 write f0 5632+512", "1000000 read f0 20480+6656"]),
        ("disksim", MQSIM, ["0 write f0 51200+8192", "315 read f1 3584+4096"]),
        ("disksim", DISKSIM, ["0 read f0 51200+1024", "12691 write f1 3584+512"]),
        ("fiu", FIU, ["0 write f0 12288+4096", "2 read f0 16384+4096"]),
    ],
    ids=["msr", "cloudphysics", "mqsim", "disksim", "fiu"],
)
def test_block_traces_are_transfers_of_devices(
    tmp_path: Path, form: str, content: str, wanted: list[str]
) -> None:
    trace = imported(tmp_path, form, content)
    assert shown(trace) == wanted
    assert not {Has.OPENS, Has.DELETES, Has.FSYNCS} & set(trace.header.has)
    assert trace.header.skipped == {"fiu": 1, "cloudphysics": 1}.get(form, 0)


def test_fiu_calls_have_sizes_and_syncs(tmp_path: Path) -> None:
    trace = imported(tmp_path, "fiu-calls", FIU_CALLS)
    assert shown(trace) == [
        "0 open f0 size=4096",
        "5 write f0 4000+200",
        "6 read f0 0+100",
        "7 fsync f0",
        "8 close f0",
    ]
    assert trace.header.first_skipped == [6]


def test_nfs_calls_count_with_their_replies(tmp_path: Path) -> None:
    trace = imported(tmp_path, "nfsdump", NFSDUMP)
    assert shown(trace) == [
        "0 write f0 8192+2048",
        "100 read f0 0+8192",
        "400 fsync f0",
        "600 truncate f0 size=16",
        "1200 truncate f1 size=0",
        "1400 delete f0",
        "1600 write f1 4+16",
    ]
    assert trace.client.tolist() == [0, 1, 0, 0, 0, 0, 1]
    assert trace.user.tolist() == [-1, 0, -1, -1, -1, -1, -1]
    assert [int(flags) for flags in trace.flags] == [0, 0, 0, 0, 0, 0, Flag.DURABLE]
    assert (trace.header.skipped, trace.header.first_skipped) == (2, [21, 23])
    assert trace.header.blind[-1].startswith("1 calls have no reply")


def sprite(order: str, *, with_type: bool) -> bytes:
    """Make a trace: a file that is written, read after a move to another host, shared, cut and deleted."""
    content = struct.pack(f"{order}I", 0x44554D51) + bytes(80)

    def record(kind: int, ticks: int, *words: int) -> None:
        nonlocal content
        body = [kind, *words] if with_type and kind != 128 else [*words]
        content += struct.pack(f"{order}I", kind << 16 | (12 + 4 * len(body)))
        content += struct.pack(f"{order}{2 + len(body)}i", ticks, 500, *body)

    def opened(ticks: int, host: int, sid: list[int], mode: int, size: int, kind: int = 0) -> None:
        record(1, ticks, host, 9, 5, *file, 6, *sid, 21, 20, mode, 1, 1, 0, size, 0, kind, 0)

    file, first, second = [1, 2, 300], [1, 0, 41], [1, 0, 42]
    opened(1, 7, first, 0x602, 0)
    opened(2, 7, [1, 0, 50], 0x1, 0, kind=1)
    record(7, 3, 6, *first, 100, 1000, 0x200)
    record(9, 4, 7, 8, 6, *first, 1010)
    record(8, 5, 6, *first, 1030, 1030, 0, 0x200, 1, 0)
    opened(6, 8, second, 0x3, 1030)
    record(12, 7, 8, 5, *file, 6, *second, 0, 50, 5, 2, 2)
    record(7, 8, 6, *second, 60, 0, 0x100)
    record(8, 9, 6, *second, 20, 1030, 0x4000000, 0x300, 2, 0)
    record(10, 10, 6, *second, 1030, 500, 0, 0)
    record(8, 11, 6, *second, 20, 500, 0x4000000, 0, 1, 0)
    record(2, 12, 8, 9, 5, *file)
    record(2, 13, 8, 9, 5, *file, 0, 0, 500)
    record(17, 14, 5, *file, 0, 0, 500)
    record(13, 15, 1, 2, 3)
    record(128, 16, 25)
    record(8, 17, 6, *first, 1, 1, 0, 0, 1, 0)
    record(8, 18, 1)
    opened(19, 8, second, 0x1, 0)
    return content


@pytest.mark.parametrize(("order", "with_type"), [(">", False), (">", True), ("<", True)])
def test_sprite_records_are_runs_between_offsets(tmp_path: Path, order: str, with_type: bool) -> None:
    trace = imported(tmp_path, "sprite", sprite(order, with_type=with_type))
    assert shown(trace) == [
        "0 open f0 h0 size=0",
        "2000000 write f0 h0 0+100",
        "3000000 write f0 h0 1000+10",
        "3000000 migrate f0 h0",
        "4000000 write f0 h0 1010+20",
        "4000000 close f0 h0",
        "5000000 open f0 h1 size=1030",
        "6000000 read f0 h1 0+50",
        "6000000 write f0 h1 0+50",
        "6000000 write f0 h1 50+5",
        "7000000 read f0 h1 55+5",
        "8000000 read f0 h1 0+20",
        "8000000 write f0 h1 0+20",
        "9000000 truncate f0 h1 size=500",
        "10000000 close f0 h1",
        "13000000 delete f0",
        "18000000 open f1 h2 size=0",
    ]
    assert trace.client.tolist() == [0] * 4 + [1] * 13
    assert trace.flags[0] == Flag.FOR_WRITING | Flag.EMPTIED
    header = trace.header
    assert [(loss.time, loss.events) for loss in header.lost] == [(15_000_000, 25)]
    assert (header.skipped, header.first_skipped, header.events_lost) == (1, [18], 26)
    assert [int(said.split()[0]) for said in header.blind[2:]] == [2, 1]


CONTENTS: dict[str, str | bytes] = {
    "strace": STRACE,
    "mobibench": MOBIBENCH,
    "nfsdump": NFSDUMP,
    "sprite": sprite(">", with_type=False),
    "fiu-calls": FIU_CALLS,
    "fiu": FIU,
    "msr": MSR,
    "cloudphysics": CLOUDPHYSICS,
    "disksim": MQSIM,
}


def test_each_format_says_what_it_is() -> None:
    assert set(CONTENTS) == set(FORMATS)
    assert all(importer.reads and importer.has and importer.clock for importer in FORMATS.values())


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_damaged_files_make_counted_lines_or_one_error(tmp_path: Path, form: str) -> None:
    """Bytes are changed, cut and repeated at random; no trace that breaks the rules comes of it."""
    content = CONTENTS[form]
    whole = content if isinstance(content, bytes) else content.encode()
    rng = random.Random(form)
    for _ in range(150):
        wrong = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(wrong))
            change = rng.choice(
                [b"", b"-", b"9" * 30, b"\0", b"\n", b"0x", b"99999999999999", bytes([rng.randrange(256)])]
            )
            wrong[at : at + rng.choice([0, 1, 1, 8])] = change
        try:
            imported(tmp_path, form, bytes(wrong))
        except TraceError as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("content", ["", "\n", "hello\n" * 3, "\0" * 100])
def test_a_file_of_another_kind_is_one_error(tmp_path: Path, form: str, content: str) -> None:
    with pytest.raises(TraceError) as error:
        imported(tmp_path, form, content)
    assert len(str(error.value).splitlines()) == 1


def test_compressed_files_are_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    wanted = imported(tmp_path, "msr", MSR).sha256
    for compress in (gzip.compress, lzma.compress, bz2.compress):
        packed = compress(MSR.encode())
        assert imported(tmp_path, "msr", packed).sha256 == wanted
        with pytest.raises(TraceError, match="give a whole file"):
            imported(tmp_path, "msr", packed[:-9])
    with pytest.raises(TraceError, match="No such file"):
        import_trace(tmp_path / "missing", "msr")
    with pytest.raises(TraceError, match="no format is named 'nothing'; name one of strace, "):
        imported(tmp_path, "nothing", MSR)


def test_lines_and_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(gzip.compress(b"a\n" + b"x" * (3 * text.MAX_LINE) + b"\nb"))
    assert list(text.lines(path)) == [b"a\n", text.TOO_LONG, b"b"]
    for bound in (1, 3 * text.MAX_LINE):
        with pytest.raises(TraceError, match=f"more than {bound} bytes"):
            list(text.lines(path, bound))
