from pathlib import Path

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.zookeeper_security import security_of

NOW_MS = 1_800_000_000_000
DIGEST = {"kafkapy.zookeeper.digest": "kafka:secret"}


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


def _config(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): value for name, value in settings.items()})


def test_a_broker_without_settings_has_no_security() -> None:
    assert security_of(_config(), NOW_MS) == (None, None, [], False)


def test_an_identity_of_kafkapy_owns_the_nodes() -> None:
    found = security_of(BrokerConfig.from_properties({**DIGEST, "zookeeper.set.acl": "true"}), NOW_MS)
    assert found == (None, None, [("digest", "kafka:secret")], True)


def test_the_user_of_the_jaas_file_owns_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    (tmp_path / "j").write_text(f'Client {{ {module} required username="kafka" password="secret"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path / 'j'}")
    found = security_of(_config(zookeeper_set_acl="true"), NOW_MS)
    assert found.protects_nodes
    assert found.login is not None
    assert found.login.options["username"] == "kafka"


def test_nodes_without_an_owner_can_not_be_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1G")
    with pytest.raises(InvalidConfigError, match=r"zookeeper\.set\.acl is true: protected nodes need an owner"):
        security_of(_config(zookeeper_set_acl="true", zookeeper_ssl_keystore_location="unused"), NOW_MS)


def test_a_setting_that_can_not_be_used_is_named() -> None:
    with pytest.raises(InvalidConfigError, match=r"zookeeper\.ssl\.client\.enable is true: set zookeeper\.clientCnxn"):
        security_of(_config(zookeeper_ssl_client_enable="true"), NOW_MS)
