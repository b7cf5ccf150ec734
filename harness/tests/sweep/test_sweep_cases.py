# SPDX-License-Identifier: Apache-2.0
"""Which operations there are, and which cases a request stands for."""

from pathlib import Path

import pytest
from riobed.errors import UsageError
from riobed.sweep.operations import BESIDE, DATA, load_operations
from riobed.sweep.session import Request, cases


def request(only: tuple[str, ...] = (), data: tuple[str, ...] = (), beside: tuple[str, ...] = ()) -> Request:
    return Request("rio", None, only, data, beside, 1, 1, Path("sweep"))


def test_a_request_for_nothing_special_is_one_for_all() -> None:
    operations = load_operations()
    alone = list(cases(operations, request(beside=("nothing",))))
    assert len(alone) == len(operations) * len(DATA) and {case.vcpus for case in alone} == {1}
    assert {case.beside for case in cases(operations, request())} == BESIDE.keys()


def test_no_task_reads_a_file_that_is_not_there() -> None:
    found = [case.beside for case in cases(load_operations(), request(only=("mkdir",), data=("disk",)))]
    assert found == ["nothing", "truncate"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (request(only=("erase",)), "unknown operation 'erase'; there are: create, "),
        (request(data=("old",)), "unknown data 'old'; there are: memory, "),
        (request(beside=("write",)), "unknown task beside 'write'; there are: nothing, "),
    ],
)
def test_what_is_not_known_is_named(asked: Request, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        list(cases(load_operations(), asked))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: {prepare: create it/a}", "operations .*: a"),
        ("a: {act: create it/a, between: torn}", "between"),
        ("[]", "want a mapping"),
        ("a: {act: create it/a}\na: {act: create it/b}", "given twice"),
    ],
)
def test_a_file_that_has_no_operations(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "operations.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_operations(path)
