import json

from kafkapy.observe.trace.lines import NO_ANSWER, REQUEST, RESPONSE, Event, as_colored_text, as_json, as_text

ASKED = Event(
    REQUEST, 1_600_000_000_123, "127.0.0.1:5", "app", 0, 8, 7, 1234, None, {"acks": 1, "t": [{"name": "a b"}]}
)
ANSWERED = ASKED._replace(kind=RESPONSE, size=60, duration_ms=1.25, body={"throttle_time_ms": 0})


def test_a_line_for_people() -> None:
    line = as_text(ASKED)
    assert line[2:3] == ":"
    assert line[8:].startswith('.123 127.0.0.1:5 app → Produce v8 #7 1,234 B acks=1 t=[{name="a b"}]')
    assert as_text(ANSWERED).endswith(" app ← Produce v8 #7 60 B 1.2 ms throttle_time_ms=0")
    none = ANSWERED._replace(kind=NO_ANSWER, size=0, client_id=None, body="none wanted")
    assert as_text(none).endswith(" - × Produce v8 #7 0 B 1.2 ms none wanted")


def test_colours_depend_on_the_kind_of_line() -> None:
    assert "\x1b[36m→" in as_colored_text(ASKED)
    assert "\x1b[32m←" in as_colored_text(ANSWERED)
    assert "\x1b[31m←" in as_colored_text(ANSWERED._replace(body={"t": [{"error_code": "CORRUPT_MESSAGE"}]}))
    assert "\x1b[33m×" in as_colored_text(ANSWERED._replace(kind=NO_ANSWER, body="gone"))


def test_client_ids_and_values_are_escaped() -> None:
    line = as_text(
        ASKED._replace(client_id="\x1b[2Jevil\n", body={"name": "\x1b]0;x\x07", "more": "…", "hidden": "[hidden]"})
    )
    assert line.isprintable()
    assert r'"\u001b[2Jevil\n"' in line
    assert "more=… hidden=[hidden]" in line
    assert as_text(ASKED._replace(client_id="<\x1b")).isprintable()


def test_reasons_and_json_lines_are_escaped() -> None:
    hostile = "\x1b[2J\x9b\x7f\n\u2028\u202e\ud800"
    reason = ASKED._replace(kind=NO_ANSWER, client_id=hostile, body=f"the topic {hostile}")
    assert as_text(reason).isprintable()
    assert as_json(reason).isprintable()
    assert json.loads(as_json(reason))["client_id"] == hostile


def test_a_long_line_is_cut() -> None:
    assert len(as_text(ASKED._replace(body={"name": "x" * 5_000}))) < 2_200
    assert len(as_text(ASKED._replace(client_id="x" * 32_000))) < 400
    assert len(as_json(ASKED._replace(kind=NO_ANSWER, client_id="x" * 32_000, body="x" * 32_000))) < 4_500


def test_a_line_for_machines() -> None:
    assert json.loads(as_json(ASKED)) == {
        "kind": "request", "time_ms": 1_600_000_000_123, "peer": "127.0.0.1:5", "client_id": "app", "api": "Produce",
        "version": 8, "correlation_id": 7, "bytes": 1234, "body": {"acks": 1, "t": [{"name": "a b"}]},
    }  # fmt: skip
    assert json.loads(as_json(ANSWERED))["duration_ms"] == 1.25
    assert json.loads(as_json(ANSWERED._replace(kind=NO_ANSWER, body="gone")))["reason"] == "gone"
    assert "\n" not in as_json(ASKED._replace(client_id="a\nb"))
