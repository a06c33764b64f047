"""Targets: replicas that live in other databases, kept at the points of the pipeline."""
