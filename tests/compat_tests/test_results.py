"""The tables that a run of compat_tests ends in, of a small suite that is run for it."""

import json
from pathlib import Path

import pytest

from compat_tests.report.results import (
    DIFFERS,
    FAILED,
    PASSED,
    SKIPPED,
    Result,
    Results,
    by_client,
    by_test,
    merged,
    name_of,
    read,
    tables,
)
from tests.compat_tests.small_suite import run_suite

SUITE = """
import pytest

@pytest.fixture
def broker(request):
    return request.param

@pytest.fixture(autouse=True)
def lasting_broker():
    pass

pytestmark = pytest.mark.scenario("groups")

@pytest.fixture(params=["one", "two"])
def client(request):
    return request.param

def test_same(broker, client):
    assert broker

@pytest.mark.differs("kafka-4.4.0", reason="newer ones do it otherwise")
def test_other(broker, client):
    assert broker == "kafka-2.7.2"

@pytest.mark.differs("kafka-4.4.0", cases=["tw*"], reason="two is another matter there")
def test_cases(broker, client):
    assert client == "one" or broker == "kafka-2.7.2"

@pytest.mark.scenario("admin", client="kcat")
def test_skipped(broker):
    pytest.skip("not here")

def test_fails(broker, client):
    assert client != "two" or broker != "kafka-2.7.2", "a line\\nand another"

class TestOfNoTarget:
    pytestmark = pytest.mark.scenario("records", client="alone")
    def test_alone(self):
        pass
"""
TARGETS = ("--target", "kafka-2.7.2", "--target", "kafka-4.4.0")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_run_ends_in_tables(tmp_path: Path, workers: tuple[str, ...]) -> None:
    file = tmp_path / "found" / "results.json"
    run = run_suite(tmp_path, *TARGETS, "--results", str(file), *workers, suite=SUITE)
    assert run.returncode == 1, run.stdout + run.stderr
    said = [" ".join(line.split()) for line in run.stdout.partition(" results ")[2].splitlines()]
    assert "test kafka-2.7.2 kafka-4.4.0 -" in said
    assert "test_fails 1, 1 FAILED 2" in said
    assert "test_other 2 2 differ" in said
    assert "alone - 1 - - - - - - -" in said
    assert "test_cases 2 1, 1 differ" in said
    assert "two kafka-2.7.2 - 3, 1 FAILED - - - - - -" in said
    assert "one kafka-4.4.0 - 3, 1 differ - - - - - -" in said
    assert "kcat kafka-2.7.2 - - - - 1 skipped - - -" in said
    assert "skipped 1: kafka-4.4.0: not here" in said
    assert "differs 1: kafka-4.4.0: two is another matter there" in said
    assert "differs 2: kafka-4.4.0: newer ones do it otherwise" in said
    results = {(each.test, each.target): each for each in read(file)}
    assert len(results) == 19
    failed = results["test_suite.py::test_fails[two]", "kafka-2.7.2"]
    assert (failed.client, failed.scenario, failed.outcome) == ("two", "groups", FAILED)
    assert failed.reason == "AssertionError: a line"


@pytest.mark.slow
def test_a_difference_that_is_none_fails(tmp_path: Path) -> None:
    run = run_suite(tmp_path, "--target", "kafka-4.4.0", suite=SUITE.replace('broker == "kafka-2.7.2"', "True"))
    assert "test_other 2 FAILED" in " ".join(run.stdout.split())


@pytest.mark.slow
def test_a_later_run_replaces_only_its_own_results(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    run_suite(tmp_path, *TARGETS, "--results", str(file), suite=SUITE)
    before = {(each.test, each.target): each for each in read(file)}
    fixed = SUITE.replace('or broker != "kafka-2.7.2"', "or True")
    run_suite(tmp_path, "-k", "test_fails", "--target", "kafka-2.7.2", "--results", str(file), suite=fixed)
    after = {(each.test, each.target): each for each in read(file)}
    assert before.keys() == after.keys()
    assert [key for key in after if after[key] != before[key]] == [("test_suite.py::test_fails[two]", "kafka-2.7.2")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "said"),
    [('scenario("gropus")', "no scenario 'gropus'"), ('scenario("groups", client="{who}")', "is the parameter 'who'")],
)
def test_a_mark_that_cant_be_understood_is_told(tmp_path: Path, mark: str, said: str) -> None:
    run = run_suite(tmp_path, suite=f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n")
    assert run.returncode == 4
    assert said in run.stderr


def result(test: str, target: str, outcome: str = PASSED, reason: str = "") -> Result:
    return Result(test, target, "kcat", "admin", outcome, reason)


def test_a_tests_name_is_the_same_on_every_target() -> None:
    assert name_of("a.py::test[kafkapy-x-1]", "kafkapy") == "a.py::test[x-1]"
    assert name_of("a.py::test[x-127.0.0.1:9092]", "127.0.0.1:9092") == "a.py::test[x]"
    assert name_of("a.py::test[kafkapy]", "kafkapy") == "a.py::test"
    assert name_of("a.py::test[kafkapy-2]", "-") == "a.py::test[kafkapy-2]"
    assert name_of("a.py::test[kafkapy--1--2]", "kafkapy") == "a.py::test[-1--2]"
    assert name_of("a.py::test", "-") == "a.py::test"


def test_pieces_of_a_run_are_put_together(tmp_path: Path) -> None:
    for name, outcome in (("first", FAILED), ("again", PASSED)):
        piece = Results()
        piece.found["a.py::test", "kafkapy"] = result("a.py::test", "kafkapy", outcome)
        piece.found[f"a.py::{name}", "kafkapy"] = result(f"a.py::{name}", "kafkapy")
        piece.write(tmp_path / name)
    found = {each.test: each.outcome for each in merged([tmp_path / "first", tmp_path / "again"])}
    assert found == {"a.py::test": PASSED, "a.py::first": PASSED, "a.py::again": PASSED}


def test_tests_that_agree_have_one_line_unless_asked_for() -> None:
    results = [result(f"a.py::test_{name}[{each}]", target) for name in "xy" for each in "12" for target in "ab"]
    assert by_test(results, verbose=False) == [["test", "a", "b"], ["a.py", "4", "4"]]
    assert by_test(results, verbose=True)[2:] == [["    test_x", "2", "2"], ["    test_y", "2", "2"]]


def test_a_test_that_ran_on_one_target_only_does_not_differ() -> None:
    results = [result("a.py::test_x", "a"), result("a.py::test_y", "a"), result("a.py::test_y", "b")]
    assert by_test(results, verbose=False) == [["test", "a", "b"], ["a.py", "2", "1"]]


def test_outcomes_are_counted() -> None:
    results = [result(f"a.py::{at}", "a", each) for at, each in enumerate((PASSED, PASSED, SKIPPED, DIFFERS, FAILED))]
    assert by_client(results)[1][:2] == ["kcat", "a"]
    assert by_client(results)[1][6] == "2, 1 skipped, 1 differ, 1 FAILED"


def test_reasons_are_told_once_with_how_often() -> None:
    results = [result(f"a.py::{at}", "a", SKIPPED, "no kcat") for at in range(3)]
    assert tables(results, verbose=False)[-1] == "skipped 3: a: no kcat"
    assert json.dumps(tables([], verbose=False)) == '["", "test"]'


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "target"), [("call", "kafka-2.7.2"), ("set-up", "-")])
def test_a_test_that_ends_its_process_has_failed(tmp_path: Path, phase: str, target: str) -> None:
    end = "import os; os._exit(1)"
    suite = f"""
import pytest

@pytest.fixture
def broker(request):
    {end if phase == "set-up" else "return request.param"}

@pytest.fixture(autouse=True)
def lasting_broker():
    pass

def test_dies(broker):
    {end}

def test_other():
    pass
"""
    file = tmp_path / "found" / "results.json"
    run = run_suite(tmp_path, "--target", "kafka-2.7.2", "--results", str(file), "-n", "1", suite=suite)
    assert run.returncode == 1, run.stdout + run.stderr
    found = {(each.test.partition("::")[2].partition("[")[0], each.target): each.outcome for each in read(file)}
    assert found == {("test_dies", target): FAILED, ("test_other", "-"): PASSED}
