# SPDX-License-Identifier: Apache-2.0
"""A soak finds what a mode without a registry loses, and nothing in mode rio."""

from pathlib import Path

import pytest
from riobed.soak.session import Request, soak
from riobed_results.tables.controls.soak import load_soak

RUN = """
cd /mnt/test && mkdir -p d/e && date >"d/$1 $3" && ln -sf "d/$1" link
head -c 300000 /dev/urandom >d/e/file
case $1 in fails) exit 3 ;; lacks) exit 69 ;; esac
"""
SUITE = """
stressors:
  works: {weight: 1, what: writes}
  goes-on: {weight: 1, what: writes again}
  fails: {weight: 1, what: says so}
  lacks: {weight: 1, what: cannot}
"""

# The second one reports files that it never makes.
RESET_RUN = """
cd /mnt/test && rm -rf made && mkdir made
n=0
while :; do
	n=$((n + 1))
	[ "$1" = lies ] && [ $n -gt 3 ] || echo $n >made/$n
	echo $n >/dev/virtio-ports/org.riobed.progress
	sleep 0.2
done
"""
RESET_CHECK = """
while read -r n; do
	[ "$(cat /mnt/test/made/"$n")" = "$n" ] || { echo "$1 $2: no $n"; exit 1; }
done <"$3"
echo "$n made"
"""
RESET_SUITE = """
stressors:
  honest: {weight: 1, what: reports, reset: random, check: sh check}
  lies: {weight: 1, what: reports too early, reset: random, check: sh check}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "run").write_text(RUN)
    (folder / "suite.yaml").write_text(SUITE)
    return folder


def test_a_soak_in_rio(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = Request("rio", 1, 7, [], suite, 512, 128, 1, tmp_path / "soak")
    assert soak(request, "md", None) == 1
    works, goes_on, fails, lacks = load_soak(tmp_path / "soak").rows
    assert works.good and works.files == 6 and works.recovery
    assert works.recovery.registry == "recovered" and works.recovery.data.pages >= 300000 // 4096
    # It ran in the file system that had been recovered.
    assert goes_on.good and goes_on.files == 7
    assert (fails.status, fails.good, fails.files_different) == (3, False, 0)
    assert lacks.infra_error and "status 69" in lacks.infra_error
    assert "2 of 4 good" in capsys.readouterr().out


@pytest.mark.extended
def test_a_soak_in_delayed(suite: Path, tmp_path: Path) -> None:
    request = Request("delayed", 1, 7, ["works"], suite, 512, 128, 1, tmp_path / "soak")
    assert soak(request, "md", None) == 1
    (row,) = load_soak(tmp_path / "soak").rows
    assert row.status == 0 and row.files == 6 and row.files_different
    assert "'./d/e/file': missing" in row.different


@pytest.mark.extended
def test_resets_at_random_moments(suite: Path, tmp_path: Path) -> None:
    (suite / "run").write_text(RESET_RUN)
    (suite / "check").write_text(RESET_CHECK)
    (suite / "suite.yaml").write_text(RESET_SUITE)
    request = Request("rio", 0.2, 7, [], suite, 512, 128, 1, tmp_path / "soak")
    assert soak(request, "md", None) == 1
    honest, lies = load_soak(tmp_path / "soak").rows
    assert honest.good and honest.resets and honest.seconds >= 6 and "made" in honest.check_output
    assert (lies.good, lies.resets, lies.check_status) == (False, 1, 1) and "no 4" in lies.check_output
