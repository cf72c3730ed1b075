"""Checks that refuse rules which could never fire, each with one sentence."""

import math
from collections.abc import Mapping
from typing import Any, Final

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import APIS
from kafkapy.protocol.places import WITH_MEMBER_ID
from kafkapy.server.dispatch.message_places import names_groups, names_partitions, names_topics
from kafkapy.server.handlers import plain_name, served_api, served_apis
from kafkapy.testing.faults.expired_members import Target
from kafkapy.testing.faults.rules import FaultAction, InvalidFaultError, Match, When
from kafkapy.text import nearest

LONGEST_DELAY_MS: Final = 86_400_000
"""A day; for longer delays use ``hold``."""
RENAMED: Final = {"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER"}
"""Kafka's earlier names of errors."""
FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "api": (str, int), "topic": (str,), "partition": (int,), "client_id": (str,), "group": (str,),
    "nth": (int, list, tuple), "count": (int,), "probability": (int, float), "seed": (int,),
}  # fmt: skip
_NOUNS: Final = {str: "a string", int: "an integer", float: "a number", list: "a list of integers"}


def checked(action: FaultAction, match: Mapping[str, Any]) -> Match:
    """Return ``match`` with the API's key for its name; raises ``InvalidFaultError``."""
    _check_types(match)
    result: Match = dict(match)  # type: ignore[assignment]  # the types of its fields have just been checked
    if "api" in result:
        result["api"] = api_key(result["api"])
    elif action is FaultAction.ERROR:
        raise InvalidFaultError("an error needs an api: each API has its own answer")
    _check_names(result)
    _check_numbers(result)
    return result


def _check_types(match: Mapping[str, Any]) -> None:
    for name, value in match.items():
        kinds = FIELDS.get(name)
        if kinds is None:
            raise InvalidFaultError(f"a rule can't match by {name!r}{nearest(name, FIELDS)}")
        if not isinstance(value, kinds) or isinstance(value, bool):
            wanted = " or ".join(_NOUNS[kind] for kind in kinds if kind in _NOUNS)
            raise InvalidFaultError(f"{name} must be {wanted}, not {value!r}")


def api_key(api: str | int) -> int:
    """The key of an API that this broker serves, by its name (any case, with or without underscores) or key."""
    if isinstance(api, str):
        key = served_api(api)
        if key is None:
            known = [each[1] for each in APIS.values() if each[1].lower() == plain_name(api)]
            if known:
                raise InvalidFaultError(f"this broker does not serve {known[0]}: the rule could never match")
            raise InvalidFaultError(f"there is no API {api!r}{nearest(api, served_apis())}")
        return key
    if api not in served_apis().values():
        raise InvalidFaultError(f"this broker serves no API with the key {api}")
    return api


def _check_names(match: Match) -> None:
    key = match.get("api")
    if "topic" in match and key is not None and not names_topics(int(key)):
        raise InvalidFaultError(f"requests of {APIS[int(key)][1]} name no topics: the rule could never match")
    if "group" in match and key is not None and not names_groups(int(key)):
        raise InvalidFaultError(f"requests of {APIS[int(key)][1]} name no groups: the rule could never match")
    if "partition" not in match:
        return
    if "topic" not in match:
        raise InvalidFaultError("a partition needs a topic")
    if match["partition"] < 0:
        raise InvalidFaultError(f"there is no partition {match['partition']}")
    if key is not None and not names_partitions(int(key)):
        raise InvalidFaultError(f"requests of {APIS[int(key)][1]} name no partitions: the rule could never match")


def _check_numbers(match: Match) -> None:
    nth = match.get("nth")
    picked = [] if nth is None else [nth] if isinstance(nth, int) else list(nth)
    if nth is not None and (not picked or any(not isinstance(each, int) or isinstance(each, bool) for each in picked)):
        raise InvalidFaultError(f"nth must be an integer or a list of integers, not {nth!r}")
    if any(each < 1 for each in picked):
        raise InvalidFaultError(f"nth counts from 1: there is no {min(picked)}")
    count = match.get("count")
    if count is not None and count < 1:
        raise InvalidFaultError(f"a rule with count {count} could never fire")
    if count is not None and picked and max(picked) > count:
        raise InvalidFaultError(f"nth {max(picked)} is after count {count}: the rule would be over by then")
    probability = match.get("probability")
    if probability is not None and not 0 < probability <= 1:
        raise InvalidFaultError(f"a probability is above 0 and at most 1, not {probability}")


def error_code(error: str | int) -> ErrorCode:
    """The error for an answer, by Kafka's name or code."""
    if isinstance(error, str):
        name = RENAMED.get(error.upper(), error.upper())
        if name not in ErrorCode.__members__:
            raise InvalidFaultError(f"there is no error {error!r}{nearest(name, ErrorCode.__members__)}")
        code = ErrorCode[name]
    elif isinstance(error, int) and not isinstance(error, bool) and error in list(ErrorCode):
        code = ErrorCode(error)
    else:
        raise InvalidFaultError(f"there is no error {error!r}")
    if code is ErrorCode.NONE:
        raise InvalidFaultError("NONE is no error")
    return code


def moment(when: object) -> When:
    """When a rule applies: ``before`` or ``after`` the handling."""
    try:
        return When(when)
    except ValueError:
        raise InvalidFaultError(f"when is 'before' or 'after' the handling, not {when!r}") from None


def duration(duration_ms: object, what: str = "delay") -> float:
    """The duration of a delay or pause (ms)."""
    is_nan = isinstance(duration_ms, float) and math.isnan(duration_ms)
    if not isinstance(duration_ms, int | float) or isinstance(duration_ms, bool) or is_nan:
        raise InvalidFaultError(f"duration_ms must be a number, not {duration_ms!r}")
    if not 0 < duration_ms <= LONGEST_DELAY_MS:
        raise InvalidFaultError(f"a {what} takes more than 0 and at most {LONGEST_DELAY_MS} ms, not {duration_ms}")
    return float(duration_ms)


def check_target(target: Target, api: str | int | None, when: When) -> None:
    """Check that requests of ``api`` (None: any) name the members that ``target`` needs."""
    for name, value in target.describe().items():
        if not isinstance(value, str | None):
            raise InvalidFaultError(f"{name} must be a string, not {value!r}")
        if value == "":
            raise InvalidFaultError(f"{name} is empty: there is no such {'group' if name == 'member_of' else 'member'}")
    if target.group is not None or api is None:
        return
    key = api_key(api)
    if target.has_ids and not names_groups(key):
        raise InvalidFaultError(f"requests of {APIS[key][1]} name no groups: give the member's group as member_of")
    if not target.has_ids and key not in WITH_MEMBER_ID:
        raise InvalidFaultError(f"requests of {APIS[key][1]} name no members: give their group as member_of")
    if not target.has_ids and key == ApiKey.LEAVE_GROUP and when is When.AFTER:
        raise InvalidFaultError("a member that has left its group has no session: the rule could never fire")
