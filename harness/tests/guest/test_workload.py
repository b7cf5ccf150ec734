# SPDX-License-Identifier: Apache-2.0
"""A workload is any folder with a workload.yaml; what a spec puts into its commands stays one word."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from riobed.errors import UsageError
from riobed.guest.settings.modes import cache_mode
from riobed.guest.workload import description as workloads
from riobed.guest.workload.commands import ModeWorkload
from riobed.guest.workload.description import Workload, check_options, command, load_workload, put_beside

MEMTEST = Path(__file__).parents[3] / "workloads" / "memtest"
ANDREW = MEMTEST.with_name("andrew")
BASE = {"name": "w", "description": "d", "start": "./run {dir}", "check": "./check"}


def folder_with(path: Path, **keys: Any) -> Path:
    (path / "workload.yaml").write_text(yaml.safe_dump(BASE | keys, sort_keys=False))
    return path


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_workload(folder)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in message
    assert message.startswith(f"workload {folder}")
    return message.removeprefix(f"workload {folder}").removeprefix("/workload.yaml").removeprefix(": ")


def ran(workload: Workload, template: str, folder: Path, **values: Any) -> subprocess.CompletedProcess[str]:
    """Really run a command, with `folder` as the workload's."""
    argv = command(template, workload, **({"seed": 1, "sync": False} | values))
    return subprocess.run(argv, capture_output=True, text=True, cwd="/")


@pytest.fixture
def guest_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(workloads, "GUEST_FOLDER", str(tmp_path))
    return tmp_path


def test_memtest_is_a_workload() -> None:
    workload = load_workload(MEMTEST)
    assert (workload.name, workload.progress) == ("memtest", "memtest")
    for key in ("prepare", "start", "check"):
        (shell, flag, line) = command(getattr(workload, key), workload, seed=7, sync=True, done=5, intent=6)
        assert (shell, flag) == ("/bin/sh", "-c")
        assert "{" not in line and "--seed 7 " in line and "/mnt/test/workload" in line
    assert " --fsync " in command(workload.start, workload, seed=7, sync=True)[2]
    assert "--fsync " not in command(workload.start, workload, seed=7, sync=False)[2]
    assert "--done 5 --intent 6" in command(workload.check, workload, seed=7, sync=True, done=5, intent=6)[2]


def test_andrew_reports_in_streams() -> None:
    workload = load_workload(ANDREW)
    assert workload.streams == 4
    reported = {"done": "1,2,3,4", "intent": "0,3,0,5", "failed": "1:EIO///"}
    line = command(workload.check, workload, seed=7, sync=False, **reported)[2]
    assert "--done 1,2,3,4 --intent 0,3,0,5 --failed 1:EIO///" in line


def test_workloads_beside_another_have_places_of_their_own() -> None:
    main, andrew = load_workload(MEMTEST), load_workload(ANDREW)
    first, second = put_beside(main, [(andrew, {"files": 9}), (andrew, {})])
    assert (first.slot.stream, second.slot.stream) == (0, 4)
    assert "--files 9 " in first.text("start", seed=7, sync=False)
    text = second.text("start", seed=7, sync=False)
    assert "cd /workload/beside1 " in text and "/mnt/test/workload-beside1 " in text and "--stream 4" in text
    with pytest.raises(UsageError, match="12 processes report"):
        put_beside(main, [(andrew, {})] * 3)
    with pytest.raises(UsageError, match="memtest: cannot run beside another"):
        put_beside(andrew, [(main, {})])


def test_workloads_beside_one_without_files_are_prepared() -> None:
    main = Workload(**BASE)
    (beside,) = put_beside(main, [(load_workload(ANDREW), {})])
    alone = ModeWorkload(main, cache_mode("rio"), {})
    assert alone.prepare is None
    prepared = replace(alone, beside=(beside,)).prepare
    assert prepared and "./andrew prepare --dir /mnt/test/workload-beside0 " in prepared[-1]


def test_all_placeholders(guest_folder: Path) -> None:
    workload = load_workload(folder_with(guest_folder, options={"size": 3, "kind": "fast"}))
    template = "echo {dir} {seed} {progress} {progress_port} {done} {intent} {fsync} {needs_fsync} "
    template += "{option:size} {option:kind} {failed} {oldest} {{}}"
    values: dict[str, Any] = {"done": 4, "intent": 5, "failed": "3:EIO", "oldest": 2}
    values |= {"options": {"kind": "slow"}}
    result = ran(workload, template, guest_folder, sync=True, needs_fsync=True, **values)
    ports = ["/dev/virtio-ports/org.riobed.progress", "0x403"]
    assert result.stdout.split() == [
        "/mnt/test/workload",
        "1",
        *ports,
        *["4", "5", "--fsync", "--fsync", "3", "slow", "3:EIO", "2", "{}"],
    ]


@pytest.mark.parametrize("value", [
    "two words", "$(touch owned)", "`touch owned`", "; touch owned", "' ; touch owned '", "a\ntouch owned",
    "", '"; touch owned; "', "*", "~", "$HOME", "\\", "--", "{dir}", "{option:x}", "&& touch owned", "ü",
])  # fmt: skip
@pytest.mark.parametrize("from_spec", [False, True])
def test_an_option_is_one_word_whatever_it_holds(guest_folder: Path, value: str, from_spec: bool) -> None:
    workload = load_workload(folder_with(guest_folder, options={"x": "" if from_spec else value}))
    options: dict[str, str | int] = {"x": value} if from_spec else {}
    result = ran(workload, "printf '<%s>' {option:x} end", guest_folder, options=options)
    assert (result.stdout, result.stderr, result.returncode) == (f"<{value}><end>", "", 0)
    assert [path.name for path in guest_folder.iterdir()] == ["workload.yaml"]


def test_a_command_runs_in_the_folder_and_gives_its_status(guest_folder: Path) -> None:
    workload = load_workload(folder_with(guest_folder))
    assert ran(workload, "pwd; exit 3", guest_folder).stdout.strip() == str(guest_folder)
    assert ran(workload, "pwd; exit 3", guest_folder).returncode == 3


@pytest.mark.parametrize("template", ["true; false", "true && false", "true\nfalse", "false | false"])
def test_the_last_part_of_a_command_decides(guest_folder: Path, template: str) -> None:
    # Were only its first part run, a check would call everything equal.
    assert ran(load_workload(folder_with(guest_folder)), template, guest_folder).returncode == 1


def test_no_folder_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "GUEST_FOLDER", str(tmp_path / "gone"))
    result = ran(load_workload(folder_with(tmp_path)), "echo here", tmp_path)
    assert result.returncode not in (0, 3)
    assert result.stdout == ""


def test_a_bad_placeholder_in_a_part_of_the_work(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, measure={"cp": "cp {dir}", "rm": "rm {nosuch}"})
    assert refusal(folder).startswith("measure.rm: bad placeholder ")


@pytest.mark.parametrize("key", ["prepare", "start", "check"])
@pytest.mark.parametrize("placeholder", [
    "{nosuch}", "{}", "{0}", "{dir", "dir}", "{option:nosuch}", "{option}", "{option!r}", "{dir!r}",
    "{option.clear}", "{seed.real}", "{dir.nosuch}", "{dir[0]}", "{seed[0]}", "{dir:d}", "{option:{seed}}",
])  # fmt: skip
def test_bad_placeholders(tmp_path: Path, key: str, placeholder: str) -> None:
    folder = folder_with(tmp_path, options={"a": "b"}, **{key: f"./x {placeholder}"})
    assert refusal(folder).startswith(f"{key}: bad placeholder ")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"start": None}, "start: Input should be a valid string"),
        ({"check": ["./check"]}, "check: Input should be a valid string"),
        ({"name": ""}, "name: String should have at least 1 character"),
        ({"progress": "steps"}, "progress: Input should be 'memtest' or 'none'"),
        ({"programs": ["fio; true"]}, "programs.0: String should match pattern"),
        ({"options": {"a": [1]}}, "options.a.str: Input should be a valid string"),
        ({"run": "./run"}, "run: Extra inputs are not permitted"),
        ({"two\nlines": "x"}, "two lines: Extra inputs are not permitted"),
    ],
)
def test_a_bad_key_is_named(tmp_path: Path, keys: dict[str, Any], says: str) -> None:
    assert refusal(folder_with(tmp_path, **keys)).startswith(says)


@pytest.mark.parametrize("missing", list(BASE))
def test_a_missing_key_is_named(tmp_path: Path, missing: str) -> None:
    text = yaml.safe_dump({key: value for key, value in BASE.items() if key != missing})
    (tmp_path / "workload.yaml").write_text(text)
    assert refusal(tmp_path) == f"{missing}: Field required"


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "file: Input should be a valid dictionary"), ("- a\n", "file: Input"), ("name: [", "not YAML: ")],
)
def test_no_yaml(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "workload.yaml").write_text(content)
    assert refusal(tmp_path).startswith(says)


def test_a_folder_without_the_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == refusal(tmp_path)
    assert refusal(tmp_path).startswith(
        "workload.yaml: No such file or directory; a workload is a folder with"
    )
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file").startswith("workload.yaml: Not a directory")


def test_a_spec_sets_only_options_there_are(tmp_path: Path) -> None:
    workload = load_workload(folder_with(tmp_path, options={"size": 1, "kind": "a"}))
    check_options(tmp_path, workload, {"size": 2})
    with pytest.raises(UsageError, match=r"no option 'sise'; there are: size, kind$"):
        check_options(tmp_path, workload, {"sise": 2})
    with pytest.raises(UsageError, match=r"there are: none$"):
        check_options(tmp_path, load_workload(folder_with(tmp_path)), {"size": 2})
