"""The classic group protocol: members join and synchronize, one of them assigns. The files in reading order:

data       ``calls``, ``states``, ``protocols``, ``members``, ``group``
log        ``records``: to bytes and back; ``replay``
decisions  ``rebalance`` and ``membership``: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, time-outs
entry      ``groups``
"""
