"""Log records as one JSON object per line, with the ID of the request they belong to.

    log.info("sentence", extra={"action": ..., ...}) ──▶ {"at":…,"level":…,"message":…,"action":…}

Only names given in ``extra`` are added: no request, settings or local variables, hence no bodies
and no secrets. Should an API key come into a text all the same, as part of an error of somebody
else's code, only its public id is written. Control characters are escaped by the JSON encoding.
"""

from __future__ import annotations

import logging
import re
from contextvars import ContextVar
from typing import Final

import msgspec

from mqservice.lib.timestamps import rfc3339

request_id_var: Final[ContextVar[str]] = ContextVar("request_id", default="")
# Of the peer that the request under way came from; for the audit, not for each line of the log.
client_address_var: Final[ContextVar[str]] = ContextVar("client_address", default="")
user_agent_var: Final[ContextVar[str]] = ContextVar("user_agent", default="")

TEXT_CHARS_MAX: Final = 8_000
_ORDINARY: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
# What Django and Celery attach to their records: objects that hold headers, bodies and arguments.
_HIDDEN: Final = frozenset({"request", "data", "args", "kwargs", "params", "sql", "exc_info"})
# What follows the public id of a key or an invitation's token; most of a ticket; the secret of an
# access key.
_KEY: Final = re.compile(r"(mq[kit]_[0-9A-Za-z_-]{8}|mqs_)[0-9A-Za-z_-]+")
_encoder: Final = msgspec.json.Encoder(enc_hook=str)


class JsonFormatter(logging.Formatter):
    """The formatter of every process of ours."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": rfc3339(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:TEXT_CHARS_MAX],
        }
        request_id = request_id_var.get()
        if request_id:
            line["request_id"] = request_id
        for name, value in record.__dict__.items():
            if name not in _ORDINARY and name not in _HIDDEN:
                plain = isinstance(value, (str, int, float, bool)) or value is None
                line[name] = value if plain else str(value)[:TEXT_CHARS_MAX]
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-TEXT_CHARS_MAX:]
        text = _encoder.encode(line).decode()
        return _KEY.sub(r"\1…", text)
