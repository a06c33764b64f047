"""One folder a dialect: Arrow in, Arrow out, no Spark."""
