# SPDX-License-Identifier: Apache-2.0
"""`riobed trace` and `riobed caches` as their user calls them: what they write, and what they refuse."""

import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from parquet_by_hand import trace_by_hand
from reference_server import random_trace
from riobed import cli
from riobed_caches.errors import TraceError
from riobed_caches.rowfiles import read_rows
from riobed_caches.rows import CacheRow, ConsistencyRow, LifetimeRow, TraceRow
from riobed_caches.trace.builder import Builder
from riobed_caches.trace.check import MAX_TIME, check_events
from riobed_caches.trace.events import Event
from riobed_caches.trace.file import Trace, read_trace, write_trace
from riobed_caches.trace.follows import FOLLOWS
from riobed_caches.trace.header import Has, Header, Loss
from riobed_results.report import plots
from riobed_results.report.caches import caches_page
from riobed_results.tables.registry import STUDY_TABLES

Riobed = Callable[..., tuple[int, str, str]]
OWN = Path(__file__).resolve().parents[3] / "results/published/own"


@pytest.fixture
def riobed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Riobed:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["riobed", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
            sys.exit(0)
        code = caught.value.code
        return (code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def small(path: Path, **header: object) -> Path:
    """A trace of a file that is written twice and deleted, and one that stays."""
    builder = Builder()
    for second, event, file in (
        (0, Event.WRITE, 1),
        (1, Event.WRITE, 1),
        (50, Event.DELETE, 1),
        (60, Event.WRITE, 2),
    ):
        moved = {"offset": 0, "length": 4096} if event is Event.WRITE else {}
        builder.add(second * 1_000_000, event, file, client=0, **moved)
    about = {
        "recorder": "test",
        "source": "small",
        "clock": "none",
        "has": list(Has),
        "seconds": 100.0,
    } | header
    write_trace(path, builder.trace(Header.model_validate(about)))
    return path


@pytest.mark.slow
def test_a_study_has_rows_a_page_and_all_tables(tmp_path: Path, riobed: Riobed) -> None:
    chance = random.Random(5)
    traces = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path in traces:
        write_trace(path, random_trace(chance, 300))
    code, out, _ = riobed("caches", *traces, "--out", tmp_path / "study")
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()[:2]] == ["one", "two"]
    assert [row.trace for row in read_rows(tmp_path / "study", TraceRow)] == ["one", "two"]
    page = (tmp_path / "study/index.html").read_text()
    for table in STUDY_TABLES:
        code, out, err = riobed("table", table.name, tmp_path / "study")
        # No random trace is like one of a paper.
        assert (code, table.name in ("papers",)) in ((0, False), (1, True)), err
        assert (f'id="{table.name}"' in page) == (code == 0)


@pytest.mark.slow
def test_what_a_small_trace_costs(tmp_path: Path, riobed: Riobed) -> None:
    """8192 of 12288 bytes die after a second and after 49 s; the last 4096 stay for 40 s of 100."""
    assert riobed("caches", small(tmp_path / "t.parquet"), "--out", tmp_path / "study")[0] == 0
    of = {row.model: row for row in read_rows(tmp_path / "study", CacheRow) if row.model != "unified"}
    assert (of["write-through"].sent, of["write-through"].at_risk) == (12288, 0)
    assert (of["never"].sent, of["never"].overwritten, of["never"].deleted) == (4096, 4096, 4096)
    assert of["never"].at_risk == pytest.approx(4096 * (50 + 40) / 100)
    # Its first byte is 30 s old at 30 s, and the last one's at 90 s; looks are each 5 s.
    assert (of["delayed"].sent, of["delayed"].delayed) == (8192, 8192)
    assert of["delayed"].at_risk == pytest.approx(4096 * (30 + 30) / 100)
    assert (of["rio"].safe, of["rio"].volatile, of["rio"].lost_in) == (8192, 0, "power")


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def whole(path: Path) -> pa.Table:
    """The events of a trace without empty fields, as in files of version 1."""
    return pa.table(dict(read_trace(path).columns))


def of_an_unopened_handle(path: Path) -> None:
    table = whole(path)
    at = table.column_names.index("handle")
    rewritten(path, table.set_column(at, "handle", pa.array([-1, 3, -1, -1], pa.int32())))


def of_another_version(path: Path) -> None:
    header(path, version=99)


def too_late(path: Path) -> None:
    table = whole(path)
    table = table.set_column(0, "time", pa.array([5, 4, 6, 7], pa.int64()))
    rewritten(path, table)


def with_nothing_in_a_field(path: Path) -> None:
    table = whole(path)
    rewritten(path, table.set_column(0, "time", pa.array([0, None, 2, 3], pa.int64())))


def beyond_a_century(path: Path) -> None:
    table = whole(path)
    rewritten(path, table.set_column(0, "time", pa.array([0, 1, 2, 2**63 - 1], pa.int64())))


def with_a_negative_loss(path: Path) -> None:
    header(path, skipped=-5)


def of_no_trace(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def with_a_huge_id(path: Path) -> None:
    table = whole(path)
    at = table.column_names.index("file")
    rewritten(path, table.set_column(at, "file", pa.array([0, 0, 0, 2**31 - 1], pa.int32())))


def with_a_name_that_is_no_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"length", b"leng\xff\xff"))


def of_other_types_by_its_metadata(path: Path) -> None:
    """Arrow takes the types of columns from a schema that may stand beside the one of Parquet."""
    table, raw = whole(path), read_trace(path).header.model_dump_json()
    schema = table.schema.set(0, pa.field("time", pa.duration("us")))
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(table.cast(schema))
        writer.add_key_value_metadata({"riobed-trace": raw})


def negative(path: Path) -> None:
    table = whole(path)
    at = table.column_names.index("length")
    rewritten(path, table.set_column(at, "length", pa.array([1, -5, -1, 1], pa.int64())))


def header(path: Path, **changes: object) -> None:
    trace = read_trace(path)
    rewritten(path, whole(path), trace.header.model_copy(update=changes).model_dump_json())


def rewritten(path: Path, table: pa.Table, raw: str | None = None) -> None:
    raw = raw or read_trace(path).header.model_dump_json(exclude_defaults=True)
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"riobed-trace": raw})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damaged, "not a whole Parquet file"),
        (of_another_version, "it has version 99, this riobed reads up to 2"),
        (of_no_trace, "a Parquet file, but no trace"),
        (too_late, "event 1: its time is before that of the event before it"),
        (with_nothing_in_a_field, "a column has empty fields that follow from nothing"),
        (beyond_a_century, "event 3: its time is more than a century"),
        (with_a_negative_loss, "its header is wrong: skipped"),
        (of_an_unopened_handle, "event 1: its handle is not open, or of another file"),
        (with_a_huge_id, "event 3: its file is too large for a dense id"),
        (with_a_name_that_is_no_text, "not a whole Parquet file"),
        (of_other_types_by_its_metadata, "its columns are not those of a trace"),
        (negative, "event 1: a transfer's offset or length is negative"),
    ],
)
def test_a_wrong_trace_is_refused_in_one_line(
    damage: Callable[[Path], None], says: str, tmp_path: Path, riobed: Riobed
) -> None:
    damage(small(tmp_path / "t.parquet"))
    code, out, err = riobed("trace", "show", tmp_path / "t.parquet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    "lies",
    [
        {"rows": 9},
        {"group_rows": 5},
        {"values": 3},
        {"page_values": 3},
        {"rows": HUGE, "group_rows": HUGE, "values": HUGE},
        {"rows": HUGE, "group_rows": HUGE, "values": HUGE, "page_values": HUGE},
        {"unpacked": HUGE},
        {"unpacked": -1},
        {"packed": HUGE},
        {"length": 20},
        {"length": 2**50},
        {"offset": -8},
        {"offset": 2**60},
        {"zeros": 64 << 20},
    ],
    ids=str,
)
def test_a_file_that_lies_of_what_is_in_it_is_refused(
    lies: dict[str, int], tmp_path: Path, riobed: Riobed
) -> None:
    path = tmp_path / "t.parquet"
    trace_by_hand(path)
    assert riobed("trace", "show", path)[0] == 0
    trace_by_hand(path, **lies)
    pool = pa.default_memory_pool()
    allocated, most = pool.bytes_allocated(), pool.max_memory()
    code, out, err = riobed("trace", "show", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    # What an earlier test left may be freed meanwhile.
    assert pool.bytes_allocated() <= allocated and pool.max_memory() == most


def test_a_damaged_footer_is_refused_or_read(tmp_path: Path) -> None:
    """Bytes of the footer and of the headers of pages change at random: one line, and no other error."""
    whole = small(tmp_path / "t.parquet").read_bytes()
    chance = random.Random(11)
    for _ in range(500):
        wrong = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            wrong[chance.randrange(4, len(wrong) - 8)] = chance.choice([0, 0x7F, 0x80, 0xFF])
        (tmp_path / "t.parquet").write_bytes(wrong)
        try:
            read_trace(tmp_path / "t.parquet")
        except TraceError as error:
            assert len(str(error).splitlines()) == 1


def test_rows_with_a_long_text_are_refused(tmp_path: Path) -> None:
    """A text stands once in the file, and would be copied for each of its rows."""
    rows = 50_000
    columns = {name: pa.array([0] * rows) for name in ConsistencyRow.model_fields}
    columns["trace"] = pa.DictionaryArray.from_arrays([0] * rows, ["x" * 100_000])
    pq.write_table(pa.table(columns), tmp_path / ConsistencyRow.file)
    with pytest.raises(TraceError, match="a text has more than"):
        read_rows(tmp_path, ConsistencyRow)


def test_a_trace_that_lost_events_is_refused_unless_asked_for(tmp_path: Path, riobed: Riobed) -> None:
    path = small(tmp_path / "t.parquet", lost=[Loss(time=1, events=3, why="disk full")])
    code, _, err = riobed("caches", path, "--out", tmp_path / "study")
    assert (code, err.count("\n")) == (2, 1)
    assert "lost 3 of 7 events; use --lossy" in err
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_lost_events_are_told_above_everything(tmp_path: Path, riobed: Riobed) -> None:
    path = small(tmp_path / "t.parquet", lost=[Loss(time=1, events=3, why="disk full")])
    told = "t lost 3 of 7 events."
    code, out, _ = riobed("caches", path, "--out", tmp_path / "study", "--lossy")
    assert (code, out.splitlines()[0]) == (0, told)
    page = (tmp_path / "study/index.html").read_text()
    assert page.index(told) < page.index("<svg")
    _, *sections = page.split("<h2 id=")
    assert {section.split('"')[1] for section in sections} > {"risk", "memory-price", "claims-of-papers"}
    for section in sections:
        table = section.split('"')[1]
        assert -1 < section.find(told) < section.index("<table"), table
        code, out, _ = riobed("table", table, tmp_path / "study")
        assert (code, -1 < out.find(told) < out.index("\n|")) == (0, True), table


PLOTTED = ("write-through", "on-close", "delayed", "when-full", "never")


def test_each_trace_of_a_study_has_its_curve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All lines of the page's plots are those of the rows, as they are when they become SVG."""
    figures: dict[str, Figure] = {}
    drawn = plots.svg
    monkeypatch.setattr(
        plots, "svg", lambda figure, name, says: drawn(figures.setdefault(name, figure), name, says)
    )
    caches_page(OWN, tmp_path / "page.html")
    caches, lifetimes = read_rows(OWN, CacheRow), read_rows(OWN, LifetimeRow)
    together = {line.get_label(): points(line) for line in figures["risk"].axes[0].lines}
    page = (tmp_path / "page.html").read_text()
    for number, name in enumerate(row.trace for row in read_rows(OWN, TraceRow)):
        section = page[page.index(f"<h2>{name}: what a crash costs") :]
        assert re.findall(r'<g id="(\w+)-figure_1"', section)[0] == f"sizes{number}"
        axes = figures[f"sizes{number}"].axes[0]
        floor = axes.get_ylim()[0]
        of_size: dict[int, list[tuple[float, float]]] = {}
        for row in caches:
            if row.trace == name and row.model in PLOTTED:
                of_size.setdefault(row.volatile, []).append((row.sent / row.written, row.at_risk))
        lines = [line for line in axes.lines if line.get_linestyle() == "-"]
        wanted = [sorted(expected(of, floor)) for _, of in sorted(of_size.items())]
        assert len(wanted) > 5 and [sorted(points(line)) for line in lines] == wanted
        curve = [(row.sent / row.written, row.at_risk) for row in lifetimes if row.trace == name]
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert [points(line) for line in dashed] == [expected(curve, floor)]
        assert together[name] == expected(curve, 1)


def points(line: Line2D) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def expected(points: Sequence[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """Points of shares and bytes in per cent; no bytes have no place on a logarithmic axis."""
    return [(100 * sent, max(risk, least)) for sent, risk in points]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--client", "nobody"], "'nobody' is none of host, user, process"),
        (["--block", "1000"], "1000 is no power of two"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], says: str, tmp_path: Path, riobed: Riobed) -> None:
    code, _, err = riobed("caches", small(tmp_path / "t.parquet"), "--out", tmp_path / "study", *arguments)
    assert (code, says in err) == (2, True)


@pytest.mark.slow
def test_a_table_that_a_trace_cannot_support_says_why(tmp_path: Path, riobed: Riobed) -> None:
    traces = (
        small(tmp_path / "t.parquet", has=[Has.TIMES, Has.DIRECTIONS]),
        small(tmp_path / "u.parquet", has=[]),
    )
    assert riobed("caches", *traces, "--out", tmp_path / "study")[0] == 0
    page = (tmp_path / "study/index.html").read_text()
    for table, title, lacks in (
        ("fates", "Fates of bytes", "deletes and truncations"),
        ("consistency", "Consistency", "opens and closes"),
    ):
        code, _, err = riobed("table", table, tmp_path / "study")
        why = f"t is left out: it does not have {lacks}. u is left out: it does not have"
        assert (code, why in err, f"<li>{title}: {why}" in page) == (1, True, True)
    for table, lacks in (
        ("risk", "times, directions of transfers"),
        ("client-caches", "times, directions of transfers"),
        ("memory-price", "times, directions of transfers"),
        ("storage-accesses", "directions of transfers"),
    ):
        code, out, _ = riobed("table", table, tmp_path / "study")
        assert (code, f"u is left out: it does not have {lacks}." in out) == (0, True), table
        assert not re.search(r"^(\| u \||\*\*u:)", out, re.MULTILINE), table


@pytest.mark.slow
def test_one_client_shares_nothing(tmp_path: Path, riobed: Riobed) -> None:
    assert riobed("caches", small(tmp_path / "t.parquet"), "--out", tmp_path / "study")[0] == 0
    code, out, err = riobed("table", "consistency", tmp_path / "study")
    assert (code, out, "t is left out: it has one client" in err) == (1, "", True)


def test_a_folder_without_a_study_is_refused(tmp_path: Path, riobed: Riobed) -> None:
    code, _, err = riobed("table", "risk", tmp_path)
    assert (code, err.count("\n")) == (1, 1)
    assert "give the folder of riobed caches --out" in err


def test_a_trace_is_kept_as_it_was(tmp_path: Path) -> None:
    chance = random.Random(6)
    trace = random_trace(chance, 200)
    write_trace(tmp_path / "t.parquet", trace)
    again: Trace = read_trace(tmp_path / "t.parquet")
    assert again.sha256 == trace.sha256
    assert again.header == trace.header
    rewritten(tmp_path / "t.parquet", whole(tmp_path / "t.parquet"))
    assert read_trace(tmp_path / "t.parquet").sha256 == trace.sha256


def test_fields_that_are_empty_by_mistake_are_refused_or_filled(tmp_path: Path) -> None:
    chance = random.Random(12)
    for _ in range(100):
        write_trace(tmp_path / "t.parquet", random_trace(chance, 30))
        table = pq.read_table(tmp_path / "t.parquet")
        for name in chance.sample(FOLLOWS, 3):
            wrong = [None, 29, 0, 2**31 - 1]
            values = [chance.choice(wrong) if chance.random() < 0.1 else v for v in table[name].to_pylist()]
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(values, table.schema.field(at).type))
        rewritten(tmp_path / "t.parquet", table)
        try:
            check_events(read_trace(tmp_path / "t.parquet").columns, "filled")
        except TraceError as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.slow
def test_a_trace_of_a_century_ends(tmp_path: Path, riobed: Riobed) -> None:
    builder = Builder()
    for time in (0, 1, MAX_TIME):
        builder.add(time, Event.WRITE, time, client=0, offset=0, length=10)
    about = Header(recorder="test", source="long", clock="none", has=list(Has))
    write_trace(tmp_path / "t.parquet", builder.trace(about))
    assert riobed("caches", tmp_path / "t.parquet", "--out", tmp_path / "study")[0] == 0
