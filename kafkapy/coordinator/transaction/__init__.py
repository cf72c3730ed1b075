"""Transactional ids and their transactions (KIP-98, KIP-360)."""
