"""Transactional ids and their transactions (KIP-98, KIP-360). The files in reading order:

data       ``states``, ``transaction``
log        ``records``: to bytes and back; ``shard``: replay
decisions  ``decisions``: InitProducerId, AddPartitionsToTxn, EndTxn, time-outs
the end    ``marker_writer``: markers into partitions of this broker; ``marker_channel``: to one other broker;
           ``marker_sender``: which marker goes where, until all are written
entry      ``runtime``: find, write, load, unload, configuration; ``coordinator``
"""
