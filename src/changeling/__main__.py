"""`python -m changeling`, and what `spark-submit` is given."""

import sys

from changeling.cli import main

sys.exit(main())
