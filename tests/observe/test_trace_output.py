import os
import threading

from kafkapy.observe.trace_output import TraceOutput


def test_lines_are_written_in_order() -> None:
    reader, writer = os.pipe()
    output = TraceOutput(writer)
    for number in range(100):
        output.write(f"line {number} …")
    output.close()
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
        assert lines.read().decode().splitlines() == [f"line {number} …" for number in range(100)]
    assert output.left_out == 0
    assert not any(thread.name == "kafkapy-trace" for thread in threading.enumerate())


def test_a_reader_that_does_not_read_costs_lines_and_nothing_else() -> None:
    reader, writer = os.pipe()
    output = TraceOutput(writer, waiting_bytes=10_000)
    for _ in range(1000):
        output.write("x" * 1000)
    assert output.is_full
    assert 900 <= output.left_out <= 990  # a pipe takes 64 of them
    output.close()
    os.set_blocking(reader, False)
    while any(thread.name == "kafkapy-trace" for thread in threading.enumerate()):
        try:
            if not os.read(reader, 1 << 16):
                break
        except BlockingIOError:
            output.close()
    os.close(reader)
    os.close(writer)


def test_a_reader_that_has_gone_ends_it() -> None:
    reader, writer = os.pipe()
    output = TraceOutput(writer)
    os.close(reader)
    output.write("nobody reads this")
    while not output.is_full:
        output.write("x")
    output.close()
    os.close(writer)
