"""The loop over batches that are alike: they differ in their headers and in the last bytes of their one record only.

A log of offset commits holds millions of such batches, and only the last of each kind counts. Like ``scan.py``, this
file runs interpreted or compiled with the C types of ``alike.pxd``. ``batch.py`` and ``record.py`` have the layout.
"""

_HEADER_SIZE = 61
_MAGIC = 16
_ATTRIBUTES = 21
_COUNT = 57


def latest_alike(
    content: bytes, position: int, tail_size: int, known: dict[bytes, object]
) -> tuple[dict[object, int], int]:
    """Walk over the batches from ``position`` on, as long as ``known`` has the bytes of each between header and tail.

    Each batch is whole, of magic 2, neither compressed nor in a transaction, and holds one record whose last byte, the
    number of headers, is 0; the tail is the ``tail_size`` bytes at its end. Returns the values of ``known`` for the
    batches that were passed, each with the position of its last batch, and the position of the first other batch.
    """
    data = content
    end = len(data)
    met: dict[object, int] = {}
    while position + _HEADER_SIZE + tail_size <= end:
        stop = position + 12 + _int32(data, position + 8)
        start = position + _HEADER_SIZE
        if stop > end or stop < start + tail_size or data[position + _MAGIC] != 2 or data[stop - 1]:
            break
        if data[position + _ATTRIBUTES] or data[position + _ATTRIBUTES + 1] or _int32(data, position + _COUNT) != 1:
            break
        meaning = known.get(content[start : stop - tail_size])
        if meaning is None:
            break
        met[meaning] = position
        position = stop
    return met, position


def _int32(data: bytes, position: int) -> int:
    bits = data[position]  # in separate statements: a value must have its C type before it is shifted
    bits = bits << 8 | data[position + 1]
    bits = bits << 8 | data[position + 2]
    bits = bits << 8 | data[position + 3]
    return bits - 0x1_0000_0000 if bits > 0x7FFF_FFFF else bits
