"""kafkapy and Apache Kafka side by side: the processor time and memory of each broker for the same work.

`rows.py` has the table's rows, each a load of `loads/`. A load starts its client, `clients/` under the same name, and
may be compared with a server of `floors/` that does no more than it must. `brokers/` starts those that are compared,
`runner.py` lets them take turns, `report.py` writes the table, `results/` keeps what came out. `mirror/` is another
comparison.
"""
