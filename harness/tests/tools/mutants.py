# SPDX-License-Identifier: Apache-2.0
"""How well the unit tests protect: the share of a random sample of mutants that they catch.

`make mutants` needs no guest and takes about half an hour. Cosmic Ray makes the mutants, of the modules that
pyproject.toml lists. coverage.py says which tests execute the changed line; the fastest of them are run.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path

import pytest
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec
from coverage import CoverageData
from statsmodels.stats.proportion import proportion_confint

# Nearly always the | of a type, which no test executes.
_TYPES = "ReplaceBinaryOperator_BitOr"
# What the tests of one mutant may take, as a share of all tests: does not depend on how busy the host is.
_BUDGET = 0.02
# Of processor time, so that a busy host catches no more mutants; and of the clock, for those that sleep.
_LIMIT_CPU_S = 60
_LIMIT_S = 900.0
_DURATION = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(.+)$", re.MULTILINE)
_QUIET = ["-q", "-p", "no:cacheprovider"]
# Imported once, before the processes of the mutants are forked.
_SLOW = ["scipy.stats", "sqlalchemy", "pydantic", "typer.testing", "rich.live", "jinja2", "capstone", "yaml"]
_FORK = multiprocessing.get_context("fork")


def copy(checkout: Path, to: Path) -> None:
    """Copy what git knows of and the manifest; bytecode in it is checked by its source's hash."""
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=checkout, text=True)
    for name in [*names.splitlines(), ".riobed/manifest.json"]:
        if (checkout / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, to / name)
    compiler = ["compileall", "-q", "--invalidation-mode", "checked-hash", "harness/riobed", "results"]
    subprocess.run([sys.executable, "-m", *compiler], cwd=to, check=True)


def measure(tree: Path, folders: list[str]) -> tuple[CoverageData, dict[str, float]]:
    """Run all unit tests: which lines each executes, and its duration in seconds."""
    options = ["--cov", "--cov-context=test", "--cov-report=", "--durations=0", "--durations-min=0"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *_QUIET,
        "-n",
        "auto",
        "-m",
        "not integration and not slow and not extended",
        *options,
    ]
    env = {**os.environ, "PYTHONPATH": "harness:results"}
    ran = subprocess.run([*command, *folders], cwd=tree, env=env, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"mutants: tests fail before anything is changed:\n{ran.stdout[-2000:]}")
    data = CoverageData(str(tree / ".coverage"))
    data.read()
    durations: dict[str, float] = defaultdict(float)
    for seconds, test in _DURATION.findall(ran.stdout):
        durations[test] += float(seconds)
    return data, durations


def sample(tree: Path, modules: list[str], count: int, seed: int) -> list[MutationSpec]:
    """Draw mutants of all modules; a change of the sources leaves those of other functions in the sample.

    Each operator in the sources is as likely as any other, however many others it can be replaced by. A hash
    of the operator's function, kind and number there ranks it, and the first `count` are taken.
    """
    with use_db(":memory:", WorkDB.Mode.create) as db:
        init([tree / module for module in modules], db, {})
        specs = [item.mutations[0] for item in db.work_items]
    places: dict[tuple[str, tuple[int, int], str], list[MutationSpec]] = defaultdict(list)
    for spec in specs:
        if _TYPES not in spec.operator_name:
            module = spec.module_path.relative_to(tree).as_posix()
            places[module, spec.start_pos, spec.operator_name.partition("_")[0]].append(spec)
    ranked = []
    seen: Counter[tuple[str | None, ...]] = Counter()
    for module, start, kind in sorted(places):
        found = places[module, start, kind]
        operator = (module, found[0].definition_name, kind)
        seen[operator] += 1
        rank = rank_of(seed, *operator, seen[operator])
        ranked.append(
            (rank, min(found, key=lambda spec: rank_of(rank, spec.operator_name, spec.operator_args)))
        )
    return [spec for _, spec in sorted(ranked, key=itemgetter(0))[:count]]


def rank_of(*words: object) -> str:
    """A number that is as good as random, but always the same for these words."""
    return hashlib.sha256(repr(words).encode()).hexdigest()


def tests_of(spec: MutationSpec, data: CoverageData, durations: dict[str, float]) -> list[str]:
    """Tests that execute a changed line, else the module: the fastest, as many as the budget allows."""
    lines = data.contexts_by_lineno(str(spec.module_path))
    changed = range(spec.start_pos[0], spec.end_pos[0] + 1)
    found = {name for line in changed for name in lines.get(line, []) if name}
    found = found or {name for names in lines.values() for name in names if name}
    chosen, left = [], _BUDGET * sum(durations.values())
    for test in sorted({name.rpartition("|")[0] for name in found}, key=lambda name: (durations[name], name)):
        left -= durations[test]
        if chosen and left < 0:
            break
        chosen.append(test)
    return chosen


def run_tests(tree: Path, tests: list[str]) -> int | None:
    """pytest's exit status in a process of its own, None if it did not end in time."""

    def child() -> None:
        os.chdir(tree)
        resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_CPU_S, _LIMIT_CPU_S))
        os.environ["PYTHONPATH"] = "harness:results"
        # Stale bytecode of one mutant must not be taken for the next.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree / "harness"), str(tree / "results")]
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os._exit(pytest.main([*_QUIET, "-x", *tests]))

    process = _FORK.Process(target=child)
    process.start()
    process.join(_LIMIT_S)
    process.kill()
    process.join()
    return process.exitcode if process.exitcode not in (-signal.SIGKILL, -signal.SIGXCPU) else None


def judge(spec: MutationSpec, tree: Path, tests: list[str]) -> str:
    """`caught`, `survived`, `untested`, or `invalid`: no mutant, or the tests fail without it, too."""
    if not tests:
        return "untested"
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    try:
        with use_mutation(spec.module_path, operator, spec.occurrence):
            status = run_tests(tree, tests)
    except AttributeError:
        # Of Cosmic Ray, which does not understand every decorator and unary operator.
        return "invalid"
    if status == pytest.ExitCode.OK:
        return "survived"
    if status in (pytest.ExitCode.TESTS_FAILED, None):
        return "caught"
    # The mutant cannot be imported, or its tests cannot be found.
    return "invalid" if run_tests(tree, tests) else "caught"


def judge_in(trees: "multiprocessing.Queue[Path]", spec: MutationSpec, tests: list[str]) -> dict[str, object]:
    """Judge a mutant in a copy that nobody else uses; what became of it, for the file of results."""
    tree = trees.get()
    moved = MutationSpec(
        tree / spec.module_path, spec.operator_name, spec.occurrence, spec.start_pos, spec.end_pos,
        spec.operator_args,
    )  # fmt: skip
    result = judge(moved, tree, tests)
    trees.put(tree)
    at = f"{spec.module_path}:{spec.start_pos[0]}:{spec.start_pos[1]}"
    print(f"{result:<9} {at} {spec.operator_name}", flush=True)
    named = {"at": at, "in": spec.definition_name, "operator": spec.operator_name}
    return {**named, "tests": len(tests), "result": result}


def run(scratch: Path, todo: list[tuple[MutationSpec, list[str]]], jobs: int, out: Path) -> None:
    """Judge them all in `jobs` copies of `scratch`/0 and write what became of each."""
    for name in _SLOW:
        import_module(name)
    trees = [scratch / str(job) for job in range(jobs)]
    for tree in trees[1:]:
        shutil.copytree(trees[0], tree)
    with _FORK.Manager() as manager, ProcessPoolExecutor(jobs, _FORK) as pool:
        free = manager.Queue()
        for tree in trees:
            free.put(tree)
        results = list(pool.map(partial(judge_in, free), *zip(*todo, strict=True)))
    out.write_text(json.dumps(results, indent=1) + "\n")
    count = Counter(str(each["result"]) for each in results)
    valid = len(results) - count["invalid"]
    low, high = proportion_confint(count["caught"], valid, method="beta")
    share = f"{count['caught'] / valid:.1%}, 95 % interval {low:.1%} to {high:.1%}"
    print(f"caught {count['caught']} of {valid} mutants: {share}; {dict(count)}")


def main() -> None:
    """Sample, run, print the share caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=330, help="mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path("mutants.json"), help="what became of each")
    options = parser.parse_args()
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]
    with tempfile.TemporaryDirectory(prefix="riobed-mutants-") as scratch, suppress(KeyboardInterrupt):
        tree = Path(scratch) / "0"
        copy(Path.cwd(), tree)
        data, durations = measure(tree, settings["tests"])
        drawn = sample(tree, settings["modules"], options.count, options.seed)
        todo = [(relative(spec, tree), tests_of(spec, data, durations)) for spec in drawn]
        run(Path(scratch), todo, options.jobs, options.out)


def relative(spec: MutationSpec, tree: Path) -> MutationSpec:
    """The same mutant in any copy."""
    return MutationSpec(
        spec.module_path.relative_to(tree), spec.operator_name, spec.occurrence, spec.start_pos, spec.end_pos,
        spec.operator_args, spec.definition_name,
    )  # fmt: skip


if __name__ == "__main__":
    main()
