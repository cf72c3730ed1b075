"""Joins the departures of each route into periods of service: sessions in RocksDB, each exactly once."""
