"""The YAML that a user writes, and running what it says."""
