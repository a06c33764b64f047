"""Replicas: the changes of the log folded into rows."""
