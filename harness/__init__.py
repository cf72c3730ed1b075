"""Modules that bench, compat_tests, tools and tests share: brokers as child processes, Java, definitions, measuring;
clients, record batches and the cases that run on kafkapy and on Apache Kafka.
"""
