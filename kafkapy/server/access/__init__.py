"""Access control: for each API the rule of Apache Kafka 2.7's ``KafkaApis`` about what a principal may request.

``control.py`` is the stage that ``admit_and_handle`` calls, ``rules.py`` the shape of a rule, ``table.py`` the rule of
each API. Nothing of it is imported without ``authorizer.class.name``.
"""
