# SPDX-License-Identifier: Apache-2.0
"""A throttle can name a disk model, in a mode and for a machine; each limit of a model has its source."""

import pytest
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.guest import CacheMode, MachineSpec, Throttle, disk_models
from riobed.guest.settings.modes import parse_modes
from riobed.guest.settings.throttle import DiskModel

RZ28B = Throttle(iops=59, bytes_per_s=5_400_000)


def test_a_model_goes_by_its_name() -> None:
    assert CacheMode.model_validate({"summary": "s", "throttle": "disk-1996"}).throttle == RZ28B
    assert RZ28B.scaled(1.5) == Throttle(iops=88, bytes_per_s=8_100_000)
    assert Throttle.model_validate("none") == Throttle() == Throttle().scaled(35)


def test_every_model_gives_limits_that_qemu_can_have() -> None:
    assert set(disk_models()) == {"disk-1996", "sata-ssd", "nvme", "none"}
    for name, model in disk_models().items():
        assert Throttle.model_validate(name).iotune() == model.limits.iotune()


def test_the_machine_says_how_fast_the_disk_is_unless_the_mode_does() -> None:
    machine = MachineSpec.model_validate({"throttle": "disk-1996"})
    modes = parse_modes("a: {summary: s}\nb: {summary: s, throttle: none}\n", "text")
    assert [mode.disk_throttle(machine) for mode in modes.values()] == [RZ28B, Throttle()]
    with pytest.raises(UsageError, match="icount"):
        modes["a"].check_machine(machine.model_copy(update={"icount": True}))


def test_an_unknown_model_is_refused_in_one_line_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"'disk-1997'; there are: disk-1996, sata-ssd, nvme, none$"
    ) as caught:
        parse_modes("mine: {summary: s, throttle: disk-1997}", "modes.yaml")
    assert "\n" not in str(caught.value)


def test_a_model_without_the_source_of_a_limit_is_refused() -> None:
    limits = {"iops": 5, "bytes_per_s": 7}
    with pytest.raises(ValidationError, match="one for each limit"):
        DiskModel.model_validate({"summary": "s", "limits": limits, "sources": {"iops": "a book"}})
