# SPDX-License-Identifier: Apache-2.0
"""What a crash may leave of a tree: as before, as after, and what is documented in between."""

import pytest
from riobed.guest.workload.tree import Entry, Tree
from riobed.sweep.judge import Content, unexplained
from riobed.sweep.operations import BETWEEN


@pytest.mark.parametrize(
    ("between", "found", "may_be"),
    [
        ("written", b"", True),
        ("written", b"nn", True),
        ("written", b"nnnn", True),
        ("written", b"nnnnn", False),
        ("written", b"on", False),
        ("mixed", b"", True),
        ("mixed", b"nn", True),
        ("mixed", b"\0n", True),
        ("mixed", b"on", False),
        ("mixed", b"nnnn", True),
    ],
)
def test_a_file_that_is_appended_to(between: str, found: bytes, may_be: bool) -> None:
    assert BETWEEN[between](b"", b"nnnn", found) == may_be


@pytest.mark.parametrize(
    ("between", "found", "may_be"),
    [
        ("written", b"abcd", True),
        ("written", b"axcd", True),
        ("written", b"axyd", True),
        ("written", b"abyd", False),
        ("written", b"axzd", False),
        ("written", b"axy", False),
        ("mixed", b"abyd", True),
        ("mixed", b"abzd", False),
    ],
)
def test_a_file_that_is_overwritten(between: str, found: bytes, may_be: bool) -> None:
    assert BETWEEN[between](b"abcd", b"axyd", found) == may_be


def file(content: str, size: int | None = None, mode: str = "644") -> Entry:
    return Entry("f", f"{mode} 1 0:0 {len(content) if size is None else size} 0", content)


def tree(**files: Entry) -> Tree:
    folders = dict.fromkeys((b"/", b"/it", b"/beside", b"/other"), Entry("d", "755 2 0:0 0 0", ""))
    return folders | {f"/{name.replace('_', '/', 1)}".encode(): entry for name, entry in files.items()}


def reader(of: Tree) -> Content:
    return lambda path: of[path].content.encode()


BEFORE = tree(it_a=file("old"), beside_b=file("old"), other_c=file("c"))
AFTER = tree(it_a=file("newer"), it_b=file("b"), beside_b=file("ne"), other_c=file("c"))

RULES = {"it": "written", "beside": "mixed"}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (BEFORE, []),
        (AFTER, []),
        # The second task has ended, the operation has not begun.
        (BEFORE | {b"/beside/b": file("ne")}, []),
        (BEFORE | {b"/it/a": file("newer")}, []),
        (BEFORE | {b"/it/a": file("newe")}, []),
        (BEFORE | {b"/it/a": file("newe", mode="600")}, ["/it/a: attributes"]),
        (BEFORE | {b"/it/a": file("odd")}, ["/it/a: content"]),
        (BEFORE | {b"/it/x": file("")}, ["/it/x: extra"]),
        # The second task's files have a rule of their own.
        (BEFORE | {b"/beside/b": file("oe")}, []),
        (BEFORE | {b"/it/a": file("oew")}, ["/it/a: content"]),
        (BEFORE | {b"/other/c": file("b")}, ["/other/c: content"]),
        ({path: entry for path, entry in BEFORE.items() if path != b"/beside/b"}, ["/beside/b: missing"]),
    ],
)
def test_places_are_judged_one_by_one(found: Tree, says: list[str]) -> None:
    contents = [reader(each) for each in (BEFORE, AFTER, found)]
    said = unexplained(BEFORE, AFTER, found, RULES, contents)
    assert [line[: len(begin)] for line, begin in zip(said, says, strict=True)] == says


def test_without_a_rule_nothing_is_in_between() -> None:
    found = BEFORE | {b"/it/a": file("newer")}
    assert unexplained(BEFORE, AFTER, found, {}, [reader(each) for each in (BEFORE, AFTER, found)])
