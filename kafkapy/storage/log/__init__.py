"""One partition's log: segments, indexes, producer state, leader epochs, durability."""
