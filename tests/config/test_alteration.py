"""Alterations result in the overrides, and in the error codes, of a running Apache Kafka 2.7.2."""

import pytest

from kafkapy.config.alteration import Change, changed_broker, changed_topic, check_broker, check_topic, replaced
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidAlterationError, InvalidConfigError

SET, DELETE, APPEND, SUBTRACT = range(4)


def test_alter_configs_replaces_all_overrides_and_the_last_equal_key_counts() -> None:
    assert replaced([("retention.ms", "1"), ("segment.ms", "2"), ("retention.ms", "3")]) == {
        "retention.ms": "3",
        "segment.ms": "2",
    }


def test_a_null_value_is_refused() -> None:
    with pytest.raises(InvalidAlterationError, match=r"retention\.ms is given no value") as refused:
        replaced([("retention.ms", None)])
    assert refused.value.error_code == 42


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"segment.ms": "1"}, ("retention.ms", SET, "5"), {"segment.ms": "1", "retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, ""), {}),
        ({}, ("retention.ms", DELETE, None), {}),
        ({}, ("unknown", DELETE, "5"), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "a,b,a"}, ("cleanup.policy", SUBTRACT, "a"), {"cleanup.policy": "b,a"}),
        ({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "no"), {"cleanup.policy": "compact"}),
        ({"cleanup.policy": "a,b"}, ("cleanup.policy", SUBTRACT, "b,a"), {"cleanup.policy": ""}),
    ],
)
def test_incremental_changes_set_delete_append_and_subtract(
    before: dict[str, str], change: tuple[str, int, str | None], after: dict[str, str]
) -> None:
    assert changed_topic(before, [Change(*change)]) == after


@pytest.mark.parametrize(
    ("before", "operation", "text", "after"),
    [
        (None, APPEND, "0:0,1:0", ",0:0,1:0"),
        ("", APPEND, "0:0", ",0:0"),
        ("0:0", APPEND, "", "0:0,"),
        (None, APPEND, "", ","),
        (None, APPEND, ",", ""),
        ("0:0", APPEND, ",1:0,,", "0:0,,1:0"),
        ("0:0,", APPEND, "1:0", "0:0,1:0"),
        ("0:0,,1:0", SUBTRACT, "", "0:0,1:0"),
        ("0:0,", SUBTRACT, "0:0", ""),
    ],
)
def test_empty_items_count_except_at_the_end_of_a_list(
    before: str | None, operation: int, text: str, after: str
) -> None:
    """As Apache Kafka 2.7.2 does it, without any trimming of the texts."""
    key = "leader.replication.throttled.replicas"
    overrides = {} if before is None else {key: before}
    assert changed_topic(overrides, [Change(key, operation, text)]) == {key: after}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("retention.ms", SET, None), 42, "SET retention.ms is given no value"),
        (("cleanup.policy", APPEND, None), 42, "APPEND cleanup.policy is given no value"),
        (("retention.ms", APPEND, "5"), 42, "retention.ms is no list: APPEND can't be done to it"),
        (("retention.ms", SUBTRACT, "5"), 42, "retention.ms is no list: SUBTRACT can't be done to it"),
        (("retention.ms", 9, "5"), 42, "Unknown operation 9 for config key: retention.ms"),
        (("nope", APPEND, "5"), 40, "Unknown config name: nope"),
    ],
)
def test_impossible_changes_are_refused(change: tuple[str, int, str | None], code: int, message: str) -> None:
    with pytest.raises((InvalidAlterationError, InvalidConfigError)) as refused:
        changed_topic({}, [Change(*change)])
    assert (refused.value.error_code, str(refused.value)) == (code, message)


def test_a_key_may_be_changed_once_in_a_request() -> None:
    changes = [Change("retention.ms", SET, "5"), Change("retention.ms", DELETE, "")]
    with pytest.raises(InvalidAlterationError, match="Keys given more than once: retention"):
        changed_topic({}, changes)


def test_a_brokers_lists_start_from_its_defaults() -> None:
    change = Change("log.cleanup.policy", APPEND, "compact")
    assert changed_broker({}, [change]) == {"log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("overrides", "code", "message"),
    [
        ({"nope": "5"}, 40, "Unknown topic config name: nope"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, 40, "must not be above max.compaction.lag"),
        (
            {"retention.ms": "-7"},
            42,
            "ConfigResource(type=TOPIC, name='t'): Invalid value -7 for configuration retention.ms",
        ),
        (
            {"cleanup.policy": "delete,foo"},
            42,
            "Invalid value foo for configuration cleanup.policy: String must be one of",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            42,
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value",
        ),
        ({"segment.bytes": " 05 "}, 42, "Invalid value 5 for configuration segment.bytes: Value must be at least 14"),
        (
            {"leader.replication.throttled.replicas": "0:1, x"},
            42,
            "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas",
        ),
    ],
)
def test_bad_overrides_of_a_topic_are_refused(overrides: dict[str, str], code: int, message: str) -> None:
    with pytest.raises((InvalidAlterationError, InvalidConfigError)) as refused:
        check_topic("t", overrides)
    assert refused.value.error_code == code
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["0", ""])
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num.partitions": "5", "log.cleaner.threads": "2"}, "Cannot update these configs dynamically: Set(num.parti"),
        (
            dict.fromkeys(("broker.id", "log.dirs", "num.partitions", "port", "zookeeper.connect"), "5"),
            "Cannot update these configs dynamically: HashSet(broker.id, log.dirs, num.partitions",
        ),
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms"),
        ({"log.retention.ms": "0"}, "must be -1 (no limit) or at least 1"),
        ({"principal.builder.class": "a.B"}, "principal.builder.class is a.B: kafkapy can't load Java classes"),
        ({"num.io.threads": "100"}, "num.io.threads=100 must be between half and double of the current value 8"),
        ({"num.io.threads": "3"}, "must be between half and double"),
        ({"num.io.threads": "0"}, "must be at least 1"),
        ({"num.replica.fetchers": "0"}, "num.replica.fetchers=0 must be at least 1"),
        ({"ssl.keystore.type": "JKS"}, "only per-listener using the listener prefix: HashSet(ssl.keystore.type)"),
    ],
)
def test_bad_overrides_of_a_broker_are_refused(name: str, overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidAlterationError) as refused:
        check_broker(BrokerConfig.from_properties(), name, overrides)
    assert str(refused.value).startswith(
        f"Invalid config value for resource ConfigResource(type=BROKER, name='{name}'): "
    )
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "overrides", [{"listeners": "PLAINTEXT://:1"}, {"listener.name.external.ssl.keystore.type": "JKS"}]
)
def test_keys_of_one_broker_are_refused_for_all_brokers(overrides: dict[str, str]) -> None:
    check_broker(BrokerConfig.from_properties(), "0", overrides)
    with pytest.raises(InvalidAlterationError, match="at default cluster level, broker id must be specified"):
        check_broker(BrokerConfig.from_properties(), "", overrides)


def test_passwords_need_a_secret_to_encrypt_them() -> None:
    overrides = {"listener.name.external.scram-sha-256.sasl.jaas.config": "secret"}
    with pytest.raises(InvalidAlterationError, match=r"password\.encoder\.secret, which is not set"):
        check_broker(BrokerConfig.from_properties(), "0", overrides)
    check_broker(BrokerConfig.from_properties({"password.encoder.secret": "s"}), "0", overrides)


def test_good_and_unknown_overrides_of_a_broker_are_accepted() -> None:
    overrides = {"num.io.threads": "\x0016", "nope": "1", "listener.name.external.max.connections": "5"}
    config = BrokerConfig.from_properties()
    check_broker(config, "", overrides)
    assert config["num.io.threads"] == 8


def test_subtract_removes_the_first_of_equal_items_for_each_value() -> None:
    key = "leader.replication.throttled.replicas"
    changed = changed_topic({key: "1:1,2:2,1:1,3:3,1:1"}, [Change(key, SUBTRACT, "1:1,3:3,1:1,4:4")])
    assert changed == {key: "2:2,1:1"}


def test_a_list_grows_to_what_a_response_can_hold() -> None:
    key = "leader.replication.throttled.replicas"
    full = {key: ",".join(["0:1"] * 8000)}
    assert changed_topic(full, [Change(key, APPEND, ",".join(["0:1"] * 191) + "2")])[key].endswith("0:12")
    with pytest.raises(InvalidAlterationError, match="would have more than 32767 bytes"):
        changed_topic(full, [Change(key, APPEND, ",".join(["0:1"] * 192) + "2")])
    long = {key: ",".join(["0:1"] * 20_000)}  # written by another program
    assert len(changed_topic(long, [Change(key, SUBTRACT, "0:1")])[key]) == 79_995


def test_the_time_of_a_change_is_linear_in_the_length_of_lists() -> None:
    key = "leader.replication.throttled.replicas"
    items = [f"{number}:0" for number in range(200_000)]
    changed = changed_topic({key: ",".join(items)}, [Change(key, SUBTRACT, ",".join(items[:0:-1]))])
    assert changed == {key: "0:0"}


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        ({}, {"of the listener": "SCRAM-SHA-256"}, False),
        ({}, {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, False),
        ({}, {"of the listener": "SCRAM-SHA-256", "log.retention.ms": "1000"}, False),
        ({}, {"of the listener": "SCRAM-SHA-256", "sasl.enabled.mechanisms": "GSSAPI"}, True),
        ({}, {"of the listener": "SCRAM-SHA-256", "max.connections": "100"}, True),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, {"of the listener": "SCRAM-SHA-256"}, True),
        ({"of the listener": "SCRAM-SHA-256"}, {"sasl.enabled.mechanisms": "GSSAPI"}, False),
        (
            {"of the listener": "SCRAM-SHA-256"},
            {"of the listener": "GSSAPI", "sasl.enabled.mechanisms": "GSSAPI"},
            True,
        ),
    ],
)
def test_settings_of_an_open_listener_change_alone(
    before: dict[str, str], after: dict[str, str], is_refused: bool
) -> None:
    """As in 2.7.2, which answers each of these changes so."""
    before, after = (
        {
            name.replace("of the listener", "listener.name.in.sasl.enabled.mechanisms"): text
            for name, text in each.items()
        }
        for each in (before, after)
    )
    protocols = {"listeners": "IN://:1", "listener.security.protocol.map": "IN:SASL_PLAINTEXT"}
    config = BrokerConfig.from_properties(protocols | {"inter.broker.listener.name": "IN"})
    config.update_dynamic(per_broker=before)
    if not is_refused:
        check_broker(config, "0", after)
        return
    with pytest.raises(InvalidAlterationError, match=r"for existing listener ListenerName\(IN\)"):
        check_broker(config, "0", after)
