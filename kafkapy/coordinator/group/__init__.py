"""Groups and their committed offsets. The files in reading order:

data       ``calls``, ``metadata_budget``, ``offsets``; ``group``: what all types of groups have in common
log        ``records``: to bytes and back; ``shard``: replay; ``runtime``: find, load, unload
decisions  ``offset_requests``: OffsetCommit, TxnOffsetCommit, OffsetFetch; ``removal``: deletion, retention;
           ``writes``: their records
types      ``group_type``: the seam; ``classic``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
entry      ``coordinator``, with the configuration in ``settings``
"""
