# SPDX-License-Identifier: Apache-2.0
"""Places in the guest's RAM must not overlap, and together keep the file cache out of harm's way."""

import re

import pytest
from riobed.errors import UsageError
from riobed.guest.memory.layout import MIB, PAGE, STAGE0_START, Layout
from riobed.products import CHECKOUT

SIZES = [256, 257, 341, 511, 512, 768, 1024, 2048, 3071, 3072]


def ranges(value: str) -> list[tuple[int, int]]:
    """(start, end) of each SIZE@START in a kernel parameter's value."""
    pairs = [part.split("@") for part in value.split(",")]
    return [(int(start, 0), int(start, 0) + int(size, 0)) for size, start in pairs]


def whole(text: str) -> int:
    """Bytes of a memmap= number."""
    return int(text[:-1]) * {"K": 1024, "M": MIB}[text[-1]] if text[-1] in "KM" else int(text)


@pytest.fixture(params=SIZES)
def layout(request: pytest.FixtureRequest) -> Layout:
    return Layout(request.param * MIB)


def test_places_are_in_ram_and_do_not_overlap(layout: Layout) -> None:
    places = sorted([*ranges(layout.keepout), *ranges(layout.registry)])
    for (start, end), (following, _) in zip(places, [*places[1:], (layout.ram, 0)], strict=True):
        assert start % PAGE == 0 and end % PAGE == 0
        assert start < end <= following
    # The first MiB is Linux's own; right behind it begins what is kept out.
    assert places[0][0] == MIB
    assert places[-1][1] == layout.ram


def test_the_registry_has_a_header_an_entry_for_each_page_and_the_log_of_the_kernel() -> None:
    """The kernel's start and the bounds of its log stand in the series, too."""
    patches = CHECKOUT / "guest-kernel-patches"
    start = re.search(r"CONFIG_PHYSICAL_START=(\w+)", (patches / "configs/base.config").read_text())
    assert start and int(start[1], 0) == STAGE0_START
    series = "".join(path.read_text() for path in patches.glob("*.patch"))
    least, most = (
        int(re.findall(rf"^\+#define RIO_{name}_LOG_PAGES\s+(\d+)", series, re.MULTILINE)[-1])
        for name in ("MIN", "MAX")
    )
    for layout in (Layout(mib * MIB) for mib in SIZES):
        assert ranges(layout.registry) == [
            (layout.registry_start, layout.registry_start + layout.registry_size)
        ]
        pages = layout.ram // PAGE
        need = PAGE + pages * 32 + min(max(pages // 256, least), most) * PAGE
        assert 0 <= layout.registry_size - need < MIB


def test_all_of_ram_can_be_saved(layout: Layout) -> None:
    size, pages = layout.swap_size, layout.ram // PAGE
    table_pages = -(-pages * 16 // PAGE)
    assert size % MIB == 0
    assert 0 <= size - (1 + table_pages + pages) * PAGE < 2 * MIB


def test_riorecover_maps_nothing_of_stage_0(layout: Layout) -> None:
    source = (CHECKOUT / "harness/guest/riorecover/memory.c").read_text()
    chunk = re.search(r"#define CHUNK \(\(uint64_t\)(\d+) << 20\)", source)
    assert chunk and layout.kept.start % (int(chunk[1]) * MIB) == 0


def test_stage_0_uses_only_what_production_keeps_out(layout: Layout) -> None:
    first, low, window, devmem = layout.stage0_parameters
    # Without the last one, a kernel with IO_STRICT_DEVMEM cannot read what follows its own RAM.
    assert (first, devmem) == ("memmap=exactmap", "iomem=relaxed")
    size, start = low.removeprefix("memmap=").split("@")
    assert int(start) + whole(size) <= MIB
    size, start = window.removeprefix("memmap=").split("@")
    kept_start, kept_end = ranges(layout.keepout)[0]
    assert kept_start <= whole(start)
    assert whole(start) + whole(size) == kept_end == layout.registry_start


@pytest.mark.parametrize("mib", [16, 64, 16384])
def test_non_volatile_memory_is_above_ram_and_known_to_both_kernels(layout: Layout, mib: int) -> None:
    size, start = map(whole, f"{mib}M 4096M".split())
    having = Layout(layout.ram, nvdimm=size)
    assert having.nvdimm_places == [f"{mib}M!4096M"]
    assert start >= layout.ram
    # Nothing else of the layout depends on it.
    assert having.stage0_parameters == [*layout.stage0_parameters, f"memmap={mib}M!4096M"]
    assert layout.nvdimm_places == []
    assert (having.keepout, having.registry) == (layout.keepout, layout.registry)


def test_the_canary_is_a_device_of_its_own_that_only_production_has() -> None:
    layout = Layout(512 * MIB, nvdimm=80 * MIB, canary=16 * MIB)
    assert layout.nvdimm_places == ["64M!4096M", "16M!4160M"]
    assert layout.stage0_parameters == Layout(512 * MIB, nvdimm=64 * MIB).stage0_parameters


@pytest.mark.parametrize(
    ("nvdimm", "canary", "room"),
    [(80, -2, 64), (80, 15, 64), (80, 66, 64), (16, 2, 0), (0, 2, 0)],
)
def test_other_sizes_of_the_canary_are_refused(nvdimm: int, canary: int, room: int) -> None:
    says = f"^canary of {canary * MIB} bytes: want an even number of MiB up to {room} MiB, "
    says += "which leaves 16 MiB of the NVDIMM$"
    with pytest.raises(UsageError, match=says):
        Layout(512 * MIB, nvdimm=nvdimm * MIB, canary=canary * MIB)


@pytest.mark.parametrize("size", [-2 * MIB, 1, 14 * MIB, 17 * MIB, 16 * MIB + PAGE, 16386 * MIB])
def test_other_sizes_of_it_are_refused(size: int) -> None:
    says = f"^NVDIMM of {size} bytes: want an even number of MiB from 16 to 16384 MiB$"
    with pytest.raises(UsageError, match=says):
        Layout(512 * MIB, nvdimm=size)


@pytest.mark.parametrize("ram", [0, -1, 255 * MIB, 3073 * MIB, 512 * MIB + 4096, 512 * MIB - 1])
def test_other_sizes_are_refused(ram: int) -> None:
    with pytest.raises(UsageError, match=rf"^memory of {ram} bytes: want whole MiB from 256 to 3072 MiB$"):
        Layout(ram)


def test_a_layout_in_numbers() -> None:
    layout = Layout(768 * MIB, nvdimm=80 * MIB, canary=16 * MIB)
    assert layout.stage0_parameters[2] == "memmap=82M@16M"
    assert ranges(layout.keepout) == [(MIB, 98 * MIB), (752 * MIB, 768 * MIB)]
    assert layout.kept == range(98 * MIB, 752 * MIB)
    # RAM without what ends with the registry, 107 MiB, the top, other programs and the description of pages.
    assert layout.cache_room == (768 - 107 - 16 - 64 - 12) * MIB
    assert layout.nvdimm_range == "100000000:105000000"
    assert layout.canary_range == "104000000:105000000"
