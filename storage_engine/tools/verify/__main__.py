"""``python -m storage_engine.tools.verify``: see ``verification``."""

from __future__ import annotations

import sys

from storage_engine.tools.verify.verification import main

sys.exit(main())
