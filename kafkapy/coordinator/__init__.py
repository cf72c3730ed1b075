"""Group coordination as pure state machines: decide, write records, replay."""
