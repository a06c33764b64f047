"""Changefeeds: the changes of one table, published as records of a dialect on a topic."""
