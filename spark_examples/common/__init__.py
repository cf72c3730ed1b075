"""What the demonstrations share: a broker, a Spark session, topics, the progress of queries, and what is printed."""
