# SPDX-License-Identifier: Apache-2.0
"""A log of strace: which events its lines make."""

import pytest
from riobed_caches.trace.events import Flag
from strace_events import parsed, shown


def log(*calls: str) -> str:
    """Give each call a time; a call may begin with the task, which is 1 else."""
    lines = []
    for number, call in enumerate(calls):
        task, _, rest = call.partition(" ") if call[0].isdigit() else ("1", "", call)
        lines.append(f"{task} {1000 + number}.000000 {rest}\n")
    return "".join(lines)


OPEN = 'openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</d/f>'


def events(*calls: str) -> list[str]:
    return shown(parsed(log(*calls)))


def test_a_duplicate_and_a_child_share_the_position_and_the_last_one_closes() -> None:
    assert events(
        OPEN,
        'write(3</d/f>, ""..., 10) = 10',
        "dup(3</d/f>) = 4</d/f>",
        'write(4</d/f>, ""..., 5) = 5',
        "fork() = 2",
        '2 write(3</d/f>, ""..., 2) = 2',
        "close(3</d/f>) = 0",
        "close(4</d/f>) = 0",
        '2 pwrite64(4</d/f>, ""..., 1, 100) = 1',
        "2 lseek(3</d/f>, -50, SEEK_END) = 51",
        '2 read(3</d/f>, ""..., 100) = 50',
        "2 +++ exited with 0 +++",
    ) == [
        "open f p0 size=0",
        "write f p0 0+10",
        "write f p0 10+5",
        "write f p1 15+2",
        "write f p1 100+1",
        "read f p1 51+50",
        "close f p1",
    ]


def test_execve_closes_what_is_to_be_closed() -> None:
    calls = ["fcntl(3</d/f>, F_SETFD, FD_CLOEXEC) = 0", "dup2(3</d/f>, 9) = 9</d/f>"]
    execve = 'execve("/bin/true", [...], 0x7f /* 1 vars */) = 0'
    assert events(OPEN, calls[0], execve)[1:] == ["close f p0"]
    assert events(OPEN, *calls, execve, 'write(9</d/f>, "", 1) = 1')[1:] == ["write f p0 0+1"]
    kept = "ioctl(3</d/f>, FIONCLEX) = 0"
    assert events(OPEN, calls[0], kept, execve, 'write(3</d/f>, "", 1) = 1')[1:] == ["write f p0 0+1"]


def test_a_thread_that_runs_execve_ends_the_others() -> None:
    flags = "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD"
    assert events(
        OPEN,
        f"clone3({{flags={flags}, exit_signal=0}} => {{parent_tid=[2]}}, 88) = 2",
        "2 fcntl(3</d/f>, F_SETFD, FD_CLOEXEC) = 0",
        '2 execve("/bin/true", [...], 0x7f /* 1 vars */ <pid changed to 1 ...>',
        "1 +++ superseded by execve in pid 2 +++",
        "1 <... execve resumed>) = -1 (errno 18446744073709551359)",
        'creat("g", 0600) = 3</d/g>',
        "1 +++ exited with 0 +++",
    ) == ["open f p0 size=0", "close f p0", "open g p0", "close g p0"]


def test_a_file_that_is_deleted_while_open_dies_at_its_last_close() -> None:
    assert events(
        OPEN,
        'link("f", "g") = 0',
        "dup(3</d/f>) = 4</d/f>",
        'unlink("f") = 0',
        'unlinkat(AT_FDCWD</d>, "g", 0) = 0',
        'write(3</d/f>(deleted), "", 1) = 1',
        'openat(AT_FDCWD</d>, "f", O_WRONLY|O_CREAT, 0600) = 5</d/f>',
        "close(3</d/f>(deleted)) = 0",
        "close_range(4, 4, 0) = 0",
        'write(5</d/f>, "", 2) = 2',
    ) == [
        "open f p0 size=0",
        "write f p0 0+1",
        "open f p0 size=0",
        "close f p0",
        "delete f p0",
        "write f p0 0+2",
    ]


def test_renames_replace_exchange_and_move_what_is_below() -> None:
    def made(name: str) -> list[str]:
        opened = f'openat(AT_FDCWD</d>, "{name}", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</d/{name}>'
        return [opened, f"close(3</d/{name}>) = 0"]

    calls = [*made("a"), *made("b/c"), *made("x")]
    assert events(*calls, 'rename("a", "b/c") = 0', 'unlink("b/c") = 0')[6:] == [
        "delete b/c p0",
        "delete a p0",
    ]
    exchange = 'renameat2(AT_FDCWD</d>, "a", AT_FDCWD</d>, "x", RENAME_EXCHANGE) = 0'
    assert events(*calls, exchange, 'unlink("a") = 0')[6:] == ["delete x p0"]
    moved = [*calls, 'rename("/d/b", "/d/new") = 0', 'unlink("b/c") = 0', 'unlink("/d/new/../new/c") = 0']
    assert events(*moved)[6:] == ["delete b/c p0"]
    assert parsed(log(*moved)).header.blind[2].startswith("1 deletions")
    assert events(*calls, 'link("a", "l") = 0', 'rename("a", "l") = 0', 'unlink("a") = 0')[6:] == []


def test_a_file_without_a_name_gets_one() -> None:
    made = 'openat(AT_FDCWD</d>, ".", O_RDWR|O_TMPFILE, 0600) = 3</d/#7>(deleted)'
    for name in (
        'linkat(AT_FDCWD</d>, "/proc/self/fd/3", AT_FDCWD</d>, "t", AT_SYMLINK_FOLLOW) = 0',
        'linkat(3</d/#7>(deleted), "", AT_FDCWD</d>, "t", AT_EMPTY_PATH) = 0',
    ):
        assert events(made, name, "close(3</d/t>) = 0", 'unlink("t") = 0')[1:] == [
            "close #7 p0",
            "delete #7 p0",
        ]
    assert events(made, "close(3</d/#7>(deleted)) = 0")[1:] == ["close #7 p0", "delete #7 p0"]


def test_offsets_of_appends_and_vectors() -> None:
    opened = 'openat(AT_FDCWD</d>, "f", O_WRONLY|O_CREAT|O_EXCL|O_APPEND|O_DSYNC, 0600) = 3</d/f>'
    trace = parsed(
        log(
            opened,
            "writev(3</d/f>, [...], 2) = 8",
            'pwrite64(3</d/f>, ""..., 4, 0) = 4',
            "fcntl(3</d/f>, F_SETFL, O_WRONLY) = 0",
            "pwritev2(3</d/f>, [...], 1, 0, RWF_APPEND) = 2",
            "pwritev2(3</d/f>, [...], 1, -1, RWF_SYNC) = 2",
            "preadv(3</d/f>, [...], 1, 7) = 3",
            "ftruncate(3</d/f>, 5) = 0",
            "fallocate(3</d/f>, 0, 0, 9) = 0",
            "fallocate(3</d/f>, FALLOC_FL_KEEP_SIZE, 0, 90) = 0",
            "fallocate(3</d/f>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 6, 100) = 0",
            "fallocate(3</d/f>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 2) = 0",
            'truncate("/d/f", 1) = 0',
        )
    )
    assert shown(trace)[1:] == [
        "write f p0 0+8",
        "write f p0 8+4",
        "write f p0 12+2",
        "write f p0 8+2",
        "read f p0 7+3",
        "truncate f p0 size=5",
        "truncate f p0 size=9",
        "truncate f p0 size=6",
        "truncate f p0 size=9",
        "truncate f p0 size=1",
    ]
    assert trace.flags[0] == Flag.FOR_WRITING | Flag.CREATED | Flag.DURABLE
    assert [Flag.DURABLE in Flag(int(flags)) for flags in trace.flags[1:6]] == [True] * 4 + [False]
    assert trace.header.blind[2].startswith("1 fallocate(2)")


def test_copies_read_one_file_and_write_another() -> None:
    two = 'openat(AT_FDCWD</d>, "g", O_RDWR|O_CREAT|O_EXCL, 0600) = 4</d/g>'
    assert events(
        OPEN,
        two,
        "copy_file_range(3</d/f>, [3], 4</d/g>, NULL, 10, 0) = 10",
        "sendfile(4</d/g>, 3</d/f>, [2] => [6], 4) = 4",
        "sendfile(4</d/g>, 3</d/f>, NULL, 4) = 4",
        "splice(7<pipe:[9]>, NULL, 4</d/g>, [100], 5, 0) = 5",
    )[2:] == [
        "read f p0 3+10",
        "write g p0 0+10",
        "read f p0 2+4",
        "write g p0 10+4",
        "read f p0 0+4",
        "write g p0 14+4",
        "write g p0 100+5",
    ]


@pytest.mark.parametrize(
    "call",
    [
        'newfstatat(3</d/f>, "", {st_mode=S_IFREG|0644, st_size=70, ...}, AT_EMPTY_PATH) = 0',
        'statx(3</d/f>, "", AT_EMPTY_PATH, 0x7, {stx_mode=S_IFREG|0644, stx_size=70, ...}) = 0',
        "fstat(3</d/f>, {st_mode=S_IFREG|0644, st_size=70, ...}) = 0",
        "lseek(3</d/f>, 0, SEEK_END) = 70",
        'read(3</d/f>, ""..., 4096) = 70',
    ],
)
def test_the_size_before_an_open_is_learned_later(call: str) -> None:
    opened = 'open("f", O_RDWR|O_APPEND) = 3</d/f>'
    said = events(opened, call, 'write(3</d/f>, "", 1) = 1', "close(3</d/f>) = 0")
    assert said[0] == "open f p0 size=70"
    assert said[-2] == "write f p0 70+1"


def test_what_a_path_stands_for() -> None:
    odd = r'openat(AT_FDCWD</d>, "we \"<n>\377\n,(\t", O_WRONLY|O_CREAT|O_EXCL, 0600)'
    path = r"/d/we \"\74n\76\377\n,(\t"
    trace = parsed(
        log(f"{odd} = 3<{path}>", f'write(3<{path}>, ""..., 1) = 1', r'unlink("we \"<n>\377\n,(\t") = 0')
    )
    assert trace.header.names == ['/d/we "<n>\\xff\n,(\t']
    assert shown(trace)[1:] == [f"write {trace.header.names[0][3:]} p0 0+1"]
    linked = [
        'openat(AT_FDCWD</d>, "/link/sub/f", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</d/sub/f>',
        "close(3</d/sub/f>) = 0",
        'chdir("/link/sub") = 0',
        'unlink("f") = 0',
    ]
    assert events(*linked)[-1] == "delete sub/f p0"
    outside = (
        "/dev/null<char 1:3>",
        "/proc/1/stat",
        "pipe:[7]",
        "TCP:[127.0.0.1:1->127.0.0.1:2]",
        "/memfd:m",
    )
    for shape in outside:
        opened, written = f'open("x", O_RDWR) = 3<{shape}>', f'write(3<{shape}>, "", 1) = 1'
        assert events(opened, written) == []
    folders = ['openat(AT_FDCWD</d>, ".", O_RDONLY|O_DIRECTORY) = 3</d>', OPEN.replace("= 3", "= 4")]
    assert events(*folders, 'open("/d", O_RDONLY) = 5</d>', "fsync(5</d>) = 0") == ["open f p0 size=0"]


def test_calls_in_two_parts_keep_their_descriptor() -> None:
    """A read that waits has its file, though another thread gives the number to another file."""
    assert events(
        OPEN,
        "clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 2",
        "read(3</d/f>,  <unfinished ...>",
        "2 close(3</d/f> <unfinished ...>",
        "2 <... close resumed>) = 0",
        '2 openat(AT_FDCWD</d>, "g", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</d/g>',
        '<... read resumed>""..., 8) = 8',
        '2 write(3</d/g>, "", 1) = 1',
    ) == ["open f p0 size=0", "open g p0 size=0", "read f p0 0+8", "close f p0", "write g p0 0+1"]


def test_a_child_that_runs_first_is_that_of_its_parent() -> None:
    other = 'openat(AT_FDCWD</d>, "g", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</d/g>'
    assert events(
        OPEN,
        f"7 {other}",
        "vfork( <unfinished ...>",
        "7 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>",
        "8 dup2(3</d/g>, 1) = 1</d/g>",
        '9 write(3</d/f>, "", 4) = 4',
        "7 <... clone resumed>) = 8",
        "<... vfork resumed>) = 9",
        '8 write(1</d/g>, "", 3) = 3',
        '7 write(3</d/g>, "", 2) = 2',
        '1 write(3</d/f>, "", 1) = 1',
    ) == [
        "open f p0 size=0",
        "open g p1 size=0",
        "write f p2 0+4",
        "write g p3 0+3",
        "write g p1 3+2",
        "write f p0 4+1",
    ]


def test_what_is_not_seen_is_counted() -> None:
    trace = parsed(
        log(
            OPEN,
            "mmap(NULL, 50, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/f>, 0x1000) = 0x7f0000",
            "mmap(NULL, 50, PROT_READ|PROT_WRITE, MAP_PRIVATE, 3</d/f>, 0) = 0x7e0000",
            "msync(0x7f0010, 4, MS_SYNC) = 0",
            "sync() = 0",
            "io_uring_setup(8, {flags=0}) = 5<anon_inode:[io_uring]>",
            'write(6</d/before>, "", 2) = 2',
        )
    )
    assert shown(trace)[1:] == ["map f p0 4096+50", "fsync f p0", "sync  p0", "write before p0 0+2"]
    assert [said.split()[0] for said in trace.header.blind[2:]] == ["stores", "1", "1", "1"]


def test_lines_that_are_not_understood_are_counted() -> None:
    good = log(OPEN, 'write(3</d/f>, "", 1) = 1').splitlines(keepends=True)
    bad = [
        "\n",
        "\0\n",
        "hello\n",
        "1 999999999999999.1 close(3) = 0\n",
        '1 1001.0 write(3</d/f>, "", 1\n',
        '1 1001.0 write(3</d/f>, ""..., 5) = 9999999999999999999\n',
        '1 1001.0 pwrite64(3</d/f>, "", 1, -7) = 1\n',
        "1 1001.0 ftruncate(3</d/f>, 99999999999999999999) = 0\n",
        "1 1001.0 <... read resumed>) = 3\n",
        '1 1001.0 rename("a) = 0\n',
        "1 1001.0 mmap(NULL) = 0x7f\n",
        "1 1001.0 " + '"' * 9999 + "\n",
    ]
    trace = parsed("".join([good[0], *bad, good[1]]))
    assert shown(trace) == ["open f p0 size=0", "write f p0 0+1"]
    assert trace.header.skipped == len(bad)
    assert trace.header.first_skipped == list(range(2, 12))
    assert len(parsed("")) == 0


def test_the_clock_never_goes_back() -> None:
    trace = parsed(log(OPEN) + '1 900.000000 write(3</d/f>, "", 1) = 1\n1 1000.5 close(3</d/f>) = 0\n')
    assert trace.time.tolist() == [0, 0, 500_000]
    assert any(said.startswith("the clock went back 1 times") for said in trace.header.blind)
    assert trace.header.recorded == "1970-01-01T00:16:40+00:00"
