# SPDX-License-Identifier: Apache-2.0
"""Every entry of modes.yaml is one that a guest can be started with."""

from importlib.resources import files

import pytest
import yaml
from pydantic import ValidationError
from riobed.errors import UsageError
from riobed.guest.layout import MIB, Layout
from riobed.guest.modes import CacheMode, all_modes, cache_mode

LAYOUT = Layout(512 * MIB)
NAMES = list(all_modes())


def test_the_modes_are_those_of_the_file_in_its_order() -> None:
    text = files("riobed.guest").joinpath("modes.yaml").read_text(encoding="utf-8")
    assert list(yaml.safe_load(text)) == NAMES
    assert {"write-through", "delayed", "rio"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_gives_kernel_parameters_that_survive_a_command_line(name: str) -> None:
    mode = cache_mode(name)
    assert mode.summary and "\n" not in mode.summary
    parameters = mode.production_parameters(LAYOUT)
    assert f"riobed.mount={mode.mount}" in parameters
    for parameter in parameters:
        assert parameter and parameter.isascii() and parameter.isprintable()
        assert not set(parameter) & set(" \t\"'\\")


@pytest.mark.parametrize("name", NAMES)
def test_sysctls_arrive_in_the_guest(name: str) -> None:
    mode = cache_mode(name)
    values = [p.removeprefix("riobed.sysctl=") for p in mode.production_parameters(LAYOUT) if ".sysctl=" in p]
    parsed = {key: int(value) for text in values for key, value in (p.split("=") for p in text.split(","))}
    assert parsed == mode.sysctls


@pytest.mark.parametrize("name", NAMES)
def test_registry_and_keepout_just_where_memory_is_restored(name: str) -> None:
    mode = cache_mode(name)
    rio = [p for p in mode.production_parameters(LAYOUT) if p.startswith(("rio.registry", "rio.keepout"))]
    wanted = [f"rio.registry={LAYOUT.registry}", f"rio.keepout={LAYOUT.keepout}"]
    assert rio == (wanted if mode.restores_memory else [])


@pytest.mark.parametrize(("name", "mechanism"), [("rio-protected", "pte"), ("rio-protected-pks", "pks")])
def test_protected_modes_are_rio_and_protection(name: str, mechanism: str) -> None:
    rio, mode = cache_mode("rio"), cache_mode(name)
    more = set(mode.production_parameters(LAYOUT)) - set(rio.production_parameters(LAYOUT))
    assert more == {f"rio.protect={mechanism}"}
    alike = {"summary": "", "kernel_parameters": ()}
    assert mode.model_copy(update=alike) == rio.model_copy(update=alike)


def test_what_the_modes_stand_for() -> None:
    through, delayed, rio = (cache_mode(name) for name in ("write-through", "delayed", "rio"))
    assert (through.sync_writes, through.restores_memory) == (True, False)
    assert (delayed.sync_writes, delayed.restores_memory) == (False, False)
    assert (rio.sync_writes, rio.restores_memory) == (False, True)
    assert "rio" in rio.mount.split(",") and "nodelalloc" in rio.mount.split(",")
    assert delayed.sysctls["vm.dirty_expire_centisecs"] == 3000


def test_an_unknown_mode_is_told_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        cache_mode("Rio")
    assert str(caught.value) == f"unknown cache mode 'Rio'; there are: {', '.join(NAMES)}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "entry", [{}, {"summary": "s", "mkf": []}, {"summary": "s", "sysctls": {"vm.x": "much"}}, {"summary": 3}]
)
def test_an_entry_with_a_mistake_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CacheMode.model_validate(entry)
