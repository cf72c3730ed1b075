"""Which tests run, on which target, in which process: marks, scenarios, missing libraries, scheduling."""
