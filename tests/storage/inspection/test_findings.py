from kafkapy.storage.inspection.findings import ERROR, MAX_OF_A_FILE, NOTE, WARNING, Finding, Findings


def test_of_one_file_only_the_first_are_kept() -> None:
    found = Findings()
    for number in range(MAX_OF_A_FILE + 5):
        found.add(ERROR, "a", f"{number}", position=number)
    found.add(NOTE, "b", "other")
    assert len(found) == MAX_OF_A_FILE + 2
    assert found[MAX_OF_A_FILE] == Finding(ERROR, "a", "and more findings")
    assert (found.has(ERROR), found.has(WARNING), found.has(NOTE)) == (True, False, True)
