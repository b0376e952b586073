"""The service's settings with harmless values for what a test run or a type check does not give."""

from __future__ import annotations

import os
from typing import cast

os.environ.setdefault("MQ_SECRET_KEY", "only-for-tests-and-type-checks-0123456789")
os.environ.setdefault("DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/mqservice")
# No test must reach the engine of a service that runs from this directory.
os.environ["MQ_ENGINE_SOCKET"] = "/nonexistent/engine.sock"

from mqservice.settings import *  # noqa: F403

# The real ones are slow on purpose, which each test that creates people would feel.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# Each test begins with no attempts counted: see the fixture ``no_attempts``.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
# The matrices are wrong on purpose, hundreds of times.
MQ_FAILED_KEYS_MAX = 0

# It has the tables already: ``migrate`` finds nothing to do.
DATABASES["default"]["TEST"] = {"TEMPLATE": "prepared"}  # noqa: F405

_OPTIONS = cast(dict[str, object], DATABASES["default"]["OPTIONS"])  # noqa: F405
# A server of the tests that answers late is late for them only.
_OPTIONS["connect_timeout"] = 60
# Where tests/mqservice/delivery is named on the command line, this is a web process by now, with a
# pool that the threads of a test would use up.
_OPTIONS.pop("pool", None)
