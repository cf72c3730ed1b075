import pytest

from tools import request_path


@pytest.mark.parametrize("name", request_path.REQUESTS)
def test_a_request_enters_no_more_files_than_its_limit(name: str) -> None:
    entered = request_path.measure(name)
    assert len(entered) <= request_path.LIMITS[name], "\n".join(entered)
    assert f"server/handlers/{name}.py" in entered
    assert next(iter(entered)) == "network/connection.py"
    assert "network/loop.py" not in entered


def test_functions_and_files_are_printed_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(request_path, "measure", lambda _: {"b.py": ["second", "first"], "a.py": ["third"]})
    assert request_path.main(["fetch"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "b.py",
        "    second, first",
        "a.py",
        "    third",
        f"fetch: 2 files, at most {request_path.LIMITS['fetch']} are allowed",
    ]
    assert request_path.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(request_path.REQUESTS)
