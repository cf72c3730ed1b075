import logging

import pytest

from kafkapy.quotas import clients
from kafkapy.quotas.clients import ClientQuotas, Windows
from kafkapy.quotas.limits import DEFAULT, Limit, QuotaEntity, QuotaKind, QuotaLimits, quotas_of
from kafkapy.testing.clock import ManualClock

PRODUCE = QuotaKind.PRODUCE


def _quotas(clock: ManualClock, **defaults: float) -> ClientQuotas:
    return ClientQuotas(clock, Windows(11, 1), Windows(11, 1), {QuotaKind(key): each for key, each in defaults.items()})


def test_the_most_specific_quota_holds() -> None:
    limits = QuotaLimits({PRODUCE: 9.0})
    order = [
        QuotaEntity(None, DEFAULT), QuotaEntity(None, "c"), QuotaEntity(DEFAULT, None), QuotaEntity(DEFAULT, DEFAULT),
        QuotaEntity(DEFAULT, "c"), QuotaEntity("u", None), QuotaEntity("u", DEFAULT), QuotaEntity("u", "c"),
    ]  # fmt: skip
    found = [limits.limit(PRODUCE, "u", "c")]
    for bound, entity in enumerate(order):
        limits.set(entity, {PRODUCE: float(bound)})
        found.append(limits.limit(PRODUCE, "u", "c"))
    client, user, both = QuotaEntity(None, "c"), QuotaEntity("u", None), QuotaEntity("u", "c")
    assert found == [
        Limit(9.0, client), Limit(0.0, client), Limit(1.0, client), Limit(2.0, user), Limit(3.0, both),
        Limit(4.0, both), Limit(5.0, user), Limit(6.0, both), Limit(7.0, both),
    ]  # fmt: skip
    for entity in order:
        limits.set(entity, {})
    assert limits.limit(PRODUCE, "u", "c") == Limit(9.0, client)
    assert limits.limit(QuotaKind.FETCH, "u", "c") is None


def test_a_client_without_an_id_has_the_quotas_of_its_user_alone() -> None:
    limits = QuotaLimits({PRODUCE: 9.0})
    limits.set(QuotaEntity("u", DEFAULT), {PRODUCE: 1.0})
    assert limits.limit(PRODUCE, "u", "") is None
    limits.set(QuotaEntity(DEFAULT, None), {PRODUCE: 2.0})
    assert limits.limit(PRODUCE, "u", "") == Limit(2.0, QuotaEntity("u", None))


def test_clients_that_share_a_quota_are_measured_together() -> None:
    clock = ManualClock()
    quotas = _quotas(clock)
    quotas.set(QuotaEntity("u", None), {"producer_byte_rate": "100"})
    assert quotas.record(PRODUCE, "u", "a", 1000) == 0
    assert quotas.record(PRODUCE, "u", "b", 1000) == 10_000
    assert quotas.record(PRODUCE, "other", "b", 1000) == 0
    clock.advance(20_000)
    assert quotas.record(PRODUCE, "u", "b", 1000) == 0


def test_a_request_waits_one_window_at_most() -> None:
    quotas = _quotas(ManualClock())
    quotas.set(QuotaEntity(None, "c"), {"request_percentage": "1"})
    assert quotas.record(QuotaKind.REQUEST, "u", "c", 5_000) == 1000


def test_what_was_not_taken_is_taken_back() -> None:
    quotas = _quotas(ManualClock(), consumer_byte_rate=100.0)
    assert quotas.record(QuotaKind.FETCH, "u", "c", 5000) == 40_000
    quotas.take_back(QuotaKind.FETCH, "u", "c", 5000)
    quotas.take_back(QuotaKind.FETCH, "u", "", 5000)
    assert quotas.record(QuotaKind.FETCH, "u", "c", 1000) == 0
    assert quotas.most_in_windows(QuotaKind.FETCH, "u", "c") == 1000
    assert quotas.most_in_windows(PRODUCE, "u", "c") is None


def test_changes_of_topics_are_counted_in_a_bucket() -> None:
    clock = ManualClock()
    quotas = _quotas(clock)
    assert quotas.mutations("u", "c") is None
    quotas.set(QuotaEntity(None, "c"), {"controller_mutation_rate": "2"})
    mutations = quotas.mutations("u", "c")
    assert mutations is not None
    mutations.take(30)
    again = quotas.mutations("u", "c")
    assert again is not None
    assert again.throttle_ms == 4_000
    clock.advance(4_000)
    assert again.throttle_ms == 0


def test_ever_new_client_ids_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_MEASURED", 2)
    quotas = _quotas(ManualClock(), producer_byte_rate=100.0)
    waits = [quotas.record(PRODUCE, "u", name, 600) for name in ("a", "b", "a", "c", "a", "b")]
    assert [wait > 0 for wait in waits] == [False, False, True, False, True, False], "b was forgotten for c"


@pytest.mark.parametrize("text", ["x", "nan", ""])
def test_a_limit_that_is_no_number_is_not_applied(text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    overrides = {"producer_byte_rate": text, "consumer_byte_rate": "5", "SCRAM-SHA-256": "salt=…"}
    assert quotas_of(QuotaEntity("u", None), overrides) == {QuotaKind.FETCH: 5.0}
    assert "producer_byte_rate" in caplog.text
    assert "salt" not in caplog.text
