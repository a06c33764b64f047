"""Records as columns: what dialects are declared with, and what reads and writes whole batches of them."""
