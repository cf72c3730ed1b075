import pytest

from kafkapy.server.names import served_api, served_apis
from kafkapy.text import nearest


def test_the_nearest_name() -> None:
    assert nearest("prodce", ["Produce", "Fetch"]) == "; did you mean 'Produce'?"
    assert nearest("x", ["Produce"]) == ""


@pytest.mark.parametrize("name", ["FindCoordinator", "FIND_COORDINATOR", "find_coordinator", "findcoordinator"])
def test_an_api_has_many_spellings(name: str) -> None:
    assert served_api(name) == 10


def test_only_what_clients_may_ask_for() -> None:
    assert served_api("UpdateMetadata") is None
    assert served_apis()["Produce"] == 0
