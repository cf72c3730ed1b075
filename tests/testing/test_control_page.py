import json

from kafkapy.testing.control_page import openapi, page
from kafkapy.testing.control_routes import ROUTES


def test_every_route_is_described() -> None:
    described = openapi()
    assert json.loads(json.dumps(described))["openapi"] == "3.0.3"
    paths = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert paths == {(route.method, route.path) for route in ROUTES}
    schema = described["paths"]["/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["action"]
    assert schema["properties"]["nth"]["oneOf"]
    assert described["paths"]["/faults/{id}"]["get"]["parameters"][0]["name"] == "id"
    assert "requestBody" not in described["paths"]["/clock"]["get"]


def test_the_page_lists_every_route() -> None:
    text = page("127.0.0.1:5")
    for route in ROUTES:
        assert f"{route.method} {route.path}" in text
    assert "curl -X POST http://127.0.0.1:5/faults" in text
    assert "<script" not in text
