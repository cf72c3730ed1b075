"""Tables, JSON and progress."""

import json

import pytest
import typer

from kafkapy.cli import output


def test_rows_as_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a_name": "[red]x[/red]", "n": 1, "flag": True, "items": [1, 2], "none": None, "empty": []}]
    output.show(rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == rows
    output.show(rows, as_json=False, title="things")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "things"
    assert lines[2].split() == ["a", "name", "n", "flag", "items", "none", "empty"]
    assert lines[4].split() == ["[red]x[/red]", "1", "yes", "1,", "2", "-", "-"]


def test_no_rows_are_shown_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([], as_json=False, title="things")
    output.show([], as_json=False)
    output.show([], as_json=False, title="things", if_empty="no things are set")
    output.show([], as_json=True)
    assert capsys.readouterr().out == "things: none\nnone\nthings: no things are set\n[]\n"


@pytest.mark.parametrize(("count", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")])
def test_a_noun_agrees_with_its_number(count: int, text: str) -> None:
    assert output.counted(count, "record") == text


def test_false_is_shown_as_no(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([{"flag": False}], as_json=False)
    assert "no" in capsys.readouterr().out


def test_long_cells_are_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([{"key": "k" * 90, "value": "v" * 90}], as_json=False)
    assert "k" * 90 in capsys.readouterr().out


def test_examples_have_one_line_each() -> None:
    assert output.examples("one", "two") == "Examples:\n\n  one\n\n  two"


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as bar:
        bar.advance(bar.add_task("working", total=3))
    assert capsys.readouterr().out == ""
    assert output.shows_progress() is False


HOSTILE = "a\x1b[2J\x9b\n\u202e\ud800"
ESCAPED = r"a\x1b[2J\x9b\n\u202e\ud800"


def test_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([{"name": HOSTILE, "more": [HOSTILE]}], as_json=False, title=f"[red]{HOSTILE}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == f"[red]{ESCAPED}"
    assert lines[4].split() == [ESCAPED, ESCAPED]
    output.show([], as_json=False, title=HOSTILE)
    output.done(f"deleted: {HOSTILE}", as_json=False)
    assert capsys.readouterr().out == f"{ESCAPED}: none\ndeleted: {ESCAPED}\n"
    with pytest.raises(typer.Exit):
        output.fail(HOSTILE)
    assert capsys.readouterr().err == f"kafkapy: {ESCAPED}\n"


def test_json_escapes_every_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    output.show([{"name": HOSTILE}], as_json=True)
    output.done("", as_json=True, name=HOSTILE)
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    rows, facts = out.rsplit("{", 1)
    assert json.loads(rows) == [{"name": HOSTILE}]
    assert json.loads("{" + facts) == {"name": HOSTILE}
