"""What is expected was printed by Scala 2.13.3, which Apache Kafka 2.7.2 comes with: a ``HashMap``, key by key."""

import pytest

from kafkapy.coordinator.hashing import in_hash_order

FORTY = (
    "k21 k35 k5 k13 k36 k6 k22 k33 k14 k7 k39 k12 k2 k0 k24 k32 k11 k9 k38 k10 k25 k19 k18 k29 k26 k15 k20 k34 k23 "
    "k1 k30 k4 k27 k3 k28 k17 k16 k31 k8 k37"
)


@pytest.mark.parametrize(
    ("keys", "ordered"),
    [
        ("range roundrobin sticky", "roundrobin range sticky"),
        (" ".join(f"k{number}" for number in range(40)), FORTY),
        (
            " a range roundrobin sticky 😀 日本語 polygenelubricants",
            "日本語 roundrobin  polygenelubricants a 😀 range sticky",
        ),
        ("BB Aa C# x", "x BB Aa C#"),  # three of one hash
        ("C# Aa BB x", "x C# Aa BB"),
    ],
)
def test_the_order_is_scalas(keys: str, ordered: str) -> None:
    assert in_hash_order(keys.split(" ")) == ordered.split(" ")
