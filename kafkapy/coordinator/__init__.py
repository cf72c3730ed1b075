"""The group and the transaction coordinator: state machines without I/O whose memory is a log (``runtime.py``)."""
