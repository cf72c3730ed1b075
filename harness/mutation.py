"""Random changes of a request's bytes, for fuzzers."""

import random

EXTREMES = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x00",
    b"\xff" * 6,
]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """One to six random changes; the API key and version mostly stay."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        start = 0 if chance.random() < 0.02 else min(8, len(changed))
        position = chance.randint(start, len(changed))
        match chance.randrange(6):
            case 0:
                changed[position : position + 1] = chance.randbytes(1)
            case 1:
                extreme = chance.choice(EXTREMES)
                changed[position : position + len(extreme)] = extreme
            case 2:
                del changed[position : position + chance.randint(1, 8)]
            case 3:
                changed[position:position] = chance.randbytes(chance.randint(1, 12))
            case 4:
                changed[position:position] = bytes([chance.choice((0, 1, 2, 3))]) * chance.randint(1, 200)
            case _:
                changed[position : position + 4] = chance.randint(0, 300).to_bytes(4, "big")
    return bytes(changed)
