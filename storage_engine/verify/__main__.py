"""``python -m storage_engine.verify``: see ``verification``."""

from __future__ import annotations

import sys

from storage_engine.verify.verification import main

sys.exit(main())
