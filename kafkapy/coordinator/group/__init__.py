"""Consumer groups (the classic protocol) and their committed offsets. The files in reading order:

data       ``calls``, ``states``, ``metadata_budget``, ``protocols``, ``members``, ``offsets``, ``group``
log        ``records``: to bytes and back; ``shard``: replay; ``runtime``: find, append, load, unload
decisions  ``rebalance`` and ``membership``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, time-outs;
           ``offset_requests``: OffsetCommit, TxnOffsetCommit, OffsetFetch; ``removal``: deletion, retention
entry      ``coordinator``, with the configuration in ``settings``
"""
