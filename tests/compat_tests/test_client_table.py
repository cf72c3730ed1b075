from pathlib import Path

import pytest

from compat_tests.report import client_table
from compat_tests.report.client_table import cell, extended, page_of, passing, read, summary_of, write
from compat_tests.report.results import DIFFERS, FAILED, PASSED, SKIPPED, Result
from compat_tests.selection.scenarios import NO_TARGET, SCENARIOS

TARGETS = ["kafka-4.4.0", "kafkapy"]


def result(test: str, target: str = "kafkapy", outcome: str = PASSED, reason: str = "", client: str = "kcat") -> Result:
    return Result(f"compat_tests/a.py::{test}", target, client, "admin" if client else "", outcome, reason)


FOUND = [
    result("test_x[1]"), result("test_x[2]"), result("test_y"),
    result("test_x[1]", "kafka-4.4.0"), result("test_x[2]", "kafka-4.4.0", DIFFERS, "newer"),
    result("test_y", "kafka-4.4.0", SKIPPED, "no such thing"), result("test_z", NO_TARGET, client=""),
]  # fmt: skip


def test_results_are_counted_and_reasons_kept_once() -> None:
    found = summary_of([*FOUND, result("test_x[3]", "kafka-4.4.0", DIFFERS, "newer")], "version of {}".format)
    assert found["versions"] == {"kcat": "version of kcat"}
    assert found["clients"] == {
        "kcat": {"admin": {"kafkapy": {PASSED: 3}, "kafka-4.4.0": {PASSED: 1, DIFFERS: 2, SKIPPED: 1}}}
    }
    assert found["targets"][NO_TARGET] == {PASSED: 1}
    assert found["reasons"][DIFFERS] == {"newer": {"kafka-4.4.0": {"a.py::test_x": 2}}}
    assert found["reasons"][SKIPPED] == {"no such thing": {"kafka-4.4.0": {"a.py::test_y": 1}}}


def test_a_summary_does_not_depend_on_the_order_of_a_run(tmp_path: Path) -> None:
    for name, found in (("a", FOUND), ("b", FOUND[::-1])):
        write(summary_of(found), tmp_path / name)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert "| kcat" in page_of(read(tmp_path / "a"))


def test_a_run_with_failures_is_not_taken_over() -> None:
    assert passing(FOUND) == FOUND
    with pytest.raises(ValueError, match=r"1 tests failed, the first is .*::test_w on kafkapy"):
        passing([*FOUND, result("test_w", outcome=FAILED)])


def test_results_of_new_clients_are_added() -> None:
    told = summary_of(FOUND, lambda _: "1.7")
    other = [
        result("test_x[1]", client="rdkafka"), result("test_q", "kafka-4.4.0", SKIPPED, "no such thing", "rdkafka"),
    ]  # fmt: skip
    assert extended(told, [*other, *FOUND[:3]], lambda _: "1.7") == summary_of([*FOUND, *other], lambda _: "1.7")


def test_changed_results_of_known_clients_are_refused() -> None:
    told = summary_of(FOUND, lambda _: "1.7")
    with pytest.raises(ValueError, match=r"kcat, admin, kafkapy: 2, which is not what is told already"):
        extended(told, FOUND[:2], lambda _: "1.7")


def test_targets_that_agree_share_a_cell() -> None:
    assert cell({"kafkapy": {PASSED: 3}, "kafka-4.4.0": {PASSED: 3}}, TARGETS) == "3"
    assert cell({"kafkapy": {PASSED: 3}}, TARGETS) == "kafkapy: 3"
    assert cell({"kafkapy": {PASSED: 3}, "kafka-4.4.0": {PASSED: 1, DIFFERS: 2, SKIPPED: 1}}, TARGETS) == (
        "kafka-4.4.0: 1, 2 differ, 1 skipped<br>kafkapy: 3"
    )
    assert cell({"kafkapy": {PASSED: 3}, "kafka-4.4.0": {PASSED: 3}}, [*TARGETS, "x"]) == "kafka-4.4.0, kafkapy: 3"
    assert cell({}, TARGETS) == ""


def test_clusters_have_a_table_of_their_own() -> None:
    page = page_of(summary_of([*FOUND, result("test_x[1]", "kafkapy-cluster")], lambda _: "1.7"))
    alone, _, on_clusters = page.partition("## Clients on three brokers")
    assert "| kafkapy: 3<br>" in alone
    assert "kafkapy-cluster" not in alone
    assert "The same tests on kafkapy-cluster: " in on_clusters
    row = ("1" if scenario == "admin" else "" for scenario in SCENARIOS)
    assert f"| kcat 1.7 | {' | '.join(row)} |" in on_clusters
    assert "three brokers" not in page_of(summary_of(FOUND))


def test_a_page_says_what_differs_and_why() -> None:
    page = page_of(
        summary_of([*FOUND, result("test_v[1]", "kafka-3.9.1", DIFFERS, "a|b")], lambda _: "1.7")
    ).splitlines()
    assert "| kcat 1.7 |" in "\n".join(page)
    assert f"| client | {' | '.join(SCENARIOS)} |" in page
    assert "| kafka-4.4.0 | newer | a.py: test_x |" in page
    assert "| kafka-3.9.1 | a\\|b | a.py: test_v |" in page
    assert "| kafka-4.4.0 | no such thing | a.py: test_y |" in page
    assert "| both at once, or none | 1 | 0 | 0 |" in page
    assert "Where releases differ" not in page_of(summary_of(FOUND[:3]))


def test_a_page_says_which_results_are_on_a_former_target() -> None:
    page = page_of(summary_of([*FOUND, result("test_x[1]", "kafka-4.1.0")]))
    assert "kafka-4.1.0: the last results; since then the suite has run on kafka-2.7.2, kafka-3.9.1, " in page
    assert "the last results" not in page_of(summary_of(FOUND))


def test_a_reason_has_its_tests_by_file_and_where_it_holds() -> None:
    found = [result(f"test_x[{case}]", target, DIFFERS, "newer") for case in (1, 2) for target in TARGETS]
    found += [Result("compat_tests/b.py", NO_TARGET, "", "", SKIPPED, "no library")]
    page = page_of(summary_of(found)).splitlines()
    assert "| kafkapy, kafka-4.4.0 | newer | a.py: test_x (2) |" in page
    assert "| – | no library | b.py |" in page
    page = page_of(summary_of([*found, result("test_y", outcome=DIFFERS, reason="newer")])).splitlines()
    assert "| kafkapy | newer | a.py: test_x (2), test_y |" in page
    assert "| kafka-4.4.0 | newer | a.py: test_x (2) |" in page


def test_before_there_are_results_the_page_says_so(tmp_path: Path) -> None:
    assert "No results have been taken over yet" in page_of(read(tmp_path / "none"))


def test_the_committed_summary_has_only_scenarios_that_there_are() -> None:
    found = client_table.read()
    assert {name for scenarios in found["clients"].values() for name in scenarios} <= set(SCENARIOS)
