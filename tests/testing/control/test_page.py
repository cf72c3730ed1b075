import json

import pytest

from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.control.cluster import CLUSTER_ROUTES, ControlledCluster
from kafkapy.testing.control.page import openapi, page
from kafkapy.testing.control.routes import ROUTES, Controllable, Controlled
from kafkapy.testing.faults import Faults
from kafkapy.testing.hosting.hosted_cluster import HostedCluster

BROKER = Controlled(Faults(), MovingClock(), lambda: "127.0.0.1:9092")
CLUSTER = ControlledCluster(HostedCluster([]))


@pytest.mark.parametrize(("of", "routes"), [(BROKER, ROUTES), (CLUSTER, CLUSTER_ROUTES)])
def test_every_route_is_described(of: Controllable, routes: object) -> None:
    assert of.routes is routes
    described = openapi(of)
    assert json.loads(json.dumps(described))["openapi"] == "3.0.3"
    paths = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert paths == {(route.method, route.path) for route in of.routes}


def test_bodies_and_numbers_in_paths_are_described() -> None:
    paths = openapi(BROKER)["paths"]
    schema = paths["/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["action"]
    assert schema["properties"]["nth"]["oneOf"]
    assert "201" in paths["/faults"]["post"]["responses"]
    assert paths["/faults/{id}"]["get"]["parameters"][0]["name"] == "id"
    assert "requestBody" not in paths["/clock"]["get"]
    paths = openapi(CLUSTER)["paths"]
    assert [each["name"] for each in paths["/brokers/{broker}/faults/{id}"]["get"]["parameters"]] == ["broker", "id"]
    groups = paths["/cluster/separate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert groups["properties"]["groups"]["items"]["items"] == {"type": "integer"}


@pytest.mark.parametrize(("of", "example"), [(BROKER, "/faults"), (CLUSTER, "/brokers/1/kill")])
def test_the_page_lists_every_route(of: Controllable, example: str) -> None:
    text = page(of, "127.0.0.1:5")
    for route in of.routes:
        assert f"{route.method} {route.path}" in text
    assert f"curl -X POST http://127.0.0.1:5{example} " in text
    assert "<script" not in text
