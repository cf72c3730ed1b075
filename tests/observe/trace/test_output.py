import os
import threading

from kafkapy.observe.trace.output import TraceOutput


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


def test_lines_are_left_out_while_the_pipe_is_full() -> None:
    reader, writer = os.pipe()
    output = TraceOutput(writer, waiting_bytes=10_000)
    for _ in range(1000):
        output.write("x" * 1000)
    assert output.is_full
    assert 900 <= output.left_out <= 990  # a pipe holds 64 of them
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


def test_no_lines_are_written_after_the_reader_has_closed_the_pipe() -> None:
    reader, writer = os.pipe()
    output = TraceOutput(writer)
    os.close(reader)
    output.write("nobody reads this")
    while not output.is_full:
        output.write("x")
    output.close()
    os.close(writer)
