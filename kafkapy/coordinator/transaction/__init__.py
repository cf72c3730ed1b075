"""Transactional ids and their transactions (KIP-98, KIP-360). The files in reading order:

data       ``states``, ``transaction``
log        ``records``: to bytes and back; ``shard``: replay; ``runtime``: append, load, unload, configuration
decisions  ``decisions``: InitProducerId, AddPartitionsToTxn, EndTxn, time-outs; ``markers``: the end of a transaction
entry      ``coordinator``
"""
