"""The positions of the integers in which otherwise equal messages differ."""

from itertools import zip_longest
from struct import Struct


def around_integers(zeros: bytes, ones: bytes, formats: str) -> list[bytes]:
    """Return the constant bytes before, between and behind the integers in which messages differ; some may be empty.

    ``zeros`` is such a message in which all bits of the integers are 0, ``ones`` one in which they are 1, so that the
    bytes of the integers differ, and no others. ``formats`` has the format of each in ``struct``.
    """
    differing = [place for place, (one, two) in enumerate(zip(zeros, ones, strict=True)) if one != two]
    assert len(differing) == Struct(f">{formats}").size, "all that differs is one of the integers"
    constant, end = [], 0
    for letter in formats:
        start, size = differing[0], Struct(f">{letter}").size
        constant.append(zeros[end:start])
        end = start + size
        del differing[:size]
    constant.append(zeros[end:])
    return constant


def layout_of(constant: list[bytes], formats: str) -> Struct:
    """Return what unpacks constant bytes and integers by turns, as ``around_integers`` found them.

    The constant bytes behind the last integer may be left out.
    """
    return Struct(
        ">" + "".join(f"{len(each)}s{letter}" for each, letter in zip_longest(constant, formats, fillvalue=""))
    )
