import pytest

from kafkapy.server.handlers import served_api, served_apis


@pytest.mark.parametrize("name", ["FindCoordinator", "FIND_COORDINATOR", "find_coordinator", "findcoordinator"])
def test_an_api_is_found_in_any_spelling(name: str) -> None:
    assert served_api(name) == 10


def test_apis_between_brokers_are_not_served_to_clients() -> None:
    assert served_api("UpdateMetadata") is None
    assert served_apis()["Produce"] == 0
