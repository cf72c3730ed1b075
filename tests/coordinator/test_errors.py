from kafkapy.coordinator import errors
from kafkapy.protocol.errors import ErrorCode


def _classes() -> list[type[errors.CoordinatorError]]:
    return [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.CoordinatorError)
    ]


def test_every_error_has_the_code_of_its_name() -> None:
    for error in _classes():
        name = "UNKNOWN_SERVER_ERROR" if error is errors.CoordinatorError else _wire_name(error.__name__)
        assert ErrorCode(error.error_code).name == name


def test_every_code_belongs_to_one_class() -> None:
    codes = [error.error_code for error in _classes()]
    assert len(codes) == len(set(codes)) == 23


def _wire_name(class_name: str) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in class_name.removesuffix("Error"))
    return words.strip("_").upper()
