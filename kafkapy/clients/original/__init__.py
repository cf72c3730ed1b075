"""The high-level clients of Kafka's original design, whose consumers find each other through ZooKeeper.

``consumer_connector.py`` has the consumer. It is built of: ``subscription.py`` (what a consumer wants),
``assignment.py`` (who gets which partition), ``registry.py`` (the tree where consumers register),
``offset_stores.py`` (where offsets are committed), ``fetching.py`` and ``streams.py`` (records on their way to the
user), and ``settings.py``. ``docs/original_clients.md`` describes them for users.
"""
