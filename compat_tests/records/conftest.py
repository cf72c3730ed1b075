from collections.abc import Iterator

import pytest

from compat_tests.records.oracle import RecordsOracle
from tools.jars import jars_directory
from tools.java import NoJavaError, find_java


@pytest.fixture(scope="session")
def oracle() -> Iterator[RecordsOracle]:
    try:
        java = find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    if not java.has_compiler:
        pytest.skip("this Java has no compiler, which the oracle needs: install a JDK 17")
    if not jars_directory("2.7.2").exists():
        pytest.skip("the jars of Kafka 2.7.2 are not here: run make jars")
    with RecordsOracle() as running:
        yield running
