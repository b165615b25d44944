"""Jobs: what clients ask for, the queue that holds it, and how it went."""
