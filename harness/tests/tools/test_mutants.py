# SPDX-License-Identifier: Apache-2.0
"""The unit tests catch as large a share of a sample of mutants as they ever did."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from riobed.products import CHECKOUT

TOOL = Path(__file__).with_name("mutants.py")
# Caught of the sample with seed 1 at 0ec24f6.
CAUGHT, OF = 265, 300


@pytest.mark.extended
def test_mutants_are_caught(tmp_path: Path) -> None:
    out = tmp_path / "mutants.json"
    subprocess.run([sys.executable, TOOL, "--out", out, "--jobs", "1"], cwd=CHECKOUT, check=True)
    results = Counter(str(each["result"]) for each in json.loads(out.read_text()))
    assert results["caught"] / (results.total() - results["invalid"]) >= CAUGHT / OF, results
