"""The high-level clients of Kafka's original design, which find brokers and each other through ZooKeeper.

``consumer_connector.py`` has the consumer. It is built of ``subscription.py`` (what a consumer wants),
``assignment.py`` (who gets which partition), ``registry.py`` (the tree where consumers register), ``offset_stores.py``
(where offsets are committed), ``fetching.py`` and ``streams.py`` (records on their way to the user).

``producer.py`` has the producer. It is built of ``keyed_messages.py`` (messages, encoders, partitioners),
``event_handler.py`` (batches to requests), and ``discovery.py`` (where leaders are).

``settings.py`` has the settings of both; ``docs/original_clients.md`` describes them for users.
"""
