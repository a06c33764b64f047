"""The suite that every format is put through: `pytest --pyargs changeling.conformance` runs it for formats of other packages."""
