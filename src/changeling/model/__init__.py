"""The vocabulary: what a change is, its position in order, and its Arrow layout. Imports nothing else of ours."""
