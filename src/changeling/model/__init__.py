"""The vocabulary: what a change is, where it lies in order, and how it looks in Arrow. Imports nothing of ours."""
