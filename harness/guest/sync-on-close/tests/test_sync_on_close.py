# SPDX-License-Identifier: Apache-2.0
"""With sync-on-close preloaded, a program makes each file durable that it wrote, in each way to close it."""

import os
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1]
# Preloaded behind it: adds a file's path and size to $FSYNC_LOG at each fsync.
LOGGER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd)
{
	char link[64], path[4096] = "", line[4200];
	int log = open(getenv("FSYNC_LOG"), O_WRONLY | O_APPEND);
	struct stat status;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) < 0 || fstat(fd, &status))
		abort();
	snprintf(line, sizeof(line), "%s %ld\n", path, (long)status.st_size);
	dprintf(log, "%s", line);
	syscall(SYS_close, log);
	return getenv("FSYNC_FAILS") ? -1 : 0;
}
"""
FCLOSE = 'int main(int c, char **v) { FILE *f = fopen(v[c - 1], "w"); fputs("x", f); return !!fclose(f); }'
# Neither the stream nor the file is closed before the process ends.
EXIT = 'int main(int c, char **v) { fputs("x", fopen(v[c - 1], "w")); return 0; }'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sync-on-close")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}"], check=True)
    for name, text in (("log.so", LOGGER), ("fclose", FCLOSE), ("exit", EXIT)):
        how = ["-shared", "-fPIC"] if name == "log.so" else []
        source = f"#include <stdio.h>\n{text}\n"
        subprocess.run(["cc", *how, "-x", "c", "-", "-o", out / name], input=source, text=True, check=True)
    return out


def run(built: Path, folder: Path, script: str, **more: str) -> tuple[int, dict[str, int]]:
    """A shell's status, and the files in `folder` that it made durable, with their last size then."""
    log = folder.with_suffix(".log")
    log.touch()
    preload = f"LD_PRELOAD={built}/sync-on-close.so:{built}/log.so"
    environment = {**os.environ, "FSYNC_LOG": str(log), "BUILT": str(built), **more}
    command = ["env", preload, "sh", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True)
    synced = [line.rpartition(" ") for line in log.read_text().splitlines()]
    return done.returncode, {Path(path).name: int(size) for path, _, size in synced if str(folder) in path}


@pytest.mark.parametrize(("script", "files"), [
    ("cp old new", {"new": 5}), ("cp old a; cp a b", {"a": 5, "b": 5}), ("$BUILT/fclose new", {"new": 1}),
    ("$BUILT/exit new", {"new": 1}), ("echo x >new", {"new": 2}), ("sort -o new old", {"new": 5}),
    ("exec 3>new; echo x >&3; exec 3>more", {"new": 2, "more": 0}), ("cat old; exec 3<old; exec 3<&-", {}),
])  # fmt: skip
def test_what_is_written_is_durable_when_it_is_closed(
    built: Path, tmp_path: Path, script: str, files: dict[str, int]
) -> None:
    (tmp_path / "old").write_text("text\n")
    assert run(built, tmp_path, script) == (0, files)


@pytest.mark.parametrize("script", ["$BUILT/fclose new", "cp old new"])
def test_a_close_fails_if_the_file_is_not_durable(built: Path, tmp_path: Path, script: str) -> None:
    (tmp_path / "old").write_text("text\n")
    assert run(built, tmp_path, script, FSYNC_FAILS="1")[0] == 1
