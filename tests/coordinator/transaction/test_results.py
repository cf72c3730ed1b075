from kafkapy.coordinator.transaction.transaction import NO_ID_AND_EPOCH, InitializeCall, Initialized


def test_a_refusal_names_no_producer() -> None:
    assert Initialized(51) == (51, -1, -1)


def test_a_producer_need_not_say_who_it_is() -> None:
    assert InitializeCall("x", 1).expected == NO_ID_AND_EPOCH == (-1, -1)
