"""The service: who may do what, the protocols, the console. Bytes live in ``storage_engine``."""

from __future__ import annotations

__version__ = "0.1.0"
