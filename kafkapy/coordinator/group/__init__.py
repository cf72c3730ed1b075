"""Groups and their committed offsets. The files in reading order:

data       ``calls``, ``metadata_budget``, ``offsets``
log        ``records``: to bytes and back; ``shard``: replay; ``runtime``: find, load, unload
decisions  ``offset_requests``: OffsetCommit, TxnOffsetCommit, OffsetFetch; ``removal``: deletion, retention;
           ``writes``: their records
types      ``group``: what they have in common; ``classic``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
entry      ``coordinator``, with the configuration in ``settings``
"""
