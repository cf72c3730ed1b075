from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compat_tests.records.oracle import RecordsOracle
from harness.java_programs import MissingToolchainError


@pytest.fixture(scope="session")
def oracle() -> Iterator[RecordsOracle]:
    with ExitStack() as stack:
        try:
            running = stack.enter_context(RecordsOracle())
        except MissingToolchainError as missing:
            pytest.skip(str(missing))
        yield running
