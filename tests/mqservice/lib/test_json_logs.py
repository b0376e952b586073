"""Log lines: JSON, with what was given in extra, without what could be secret."""

from __future__ import annotations

import logging
import sys

import msgspec
import pytest

from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.json_logs import JsonFormatter, request_id_var


def line_of(record: logging.LogRecord) -> dict[str, object]:
    text = JsonFormatter().format(record)
    assert "\n" not in text
    return msgspec.json.decode(text, type=dict[str, object])


def record_of(message: str, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("mqservice.test")
    return logger.makeRecord(
        logger.name, logging.INFO, __file__, 1, message, (), None, extra=extra or None
    )


def test_line_holds_the_sentence_and_the_extra_fields() -> None:
    line = line_of(record_of("Segment rolled", action="segment_rolled", base_offset=7))
    assert line["message"] == "Segment rolled"
    assert line["action"] == "segment_rolled"
    assert line["base_offset"] == 7
    assert line["level"] == "INFO"
    assert line["logger"] == "mqservice.test"


def test_line_breaks_and_control_characters_stay_within_the_line() -> None:
    assert line_of(record_of('forged\n{"level":"ERROR"}\x1b[31m'))["level"] == "INFO"


def test_request_with_its_headers_is_left_out() -> None:
    line = line_of(record_of("Refused", request="Authorization: Bearer mqk_secret"))
    assert "mqk_secret" not in str(line)


def test_request_id_is_added_within_a_request() -> None:
    token = request_id_var.set("01J")
    try:
        assert line_of(record_of("Inside"))["request_id"] == "01J"
    finally:
        request_id_var.reset(token)
    assert "request_id" not in line_of(record_of("Outside"))


def test_traceback_is_one_field() -> None:
    record = record_of("Failed")
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: why" in str(line_of(record)["traceback"])


def test_api_key_in_a_text_is_cut_to_its_public_id() -> None:
    key = generate_api_key()
    line = str(line_of(record_of(f"refused: Bearer {key}", path=f"/x?key={key}")))
    assert key not in line
    assert key[12:] not in line
    assert line.count(f"{key[:12]}…") == 2


@pytest.mark.parametrize("kind", ["mqk_", "mqi_", "mqt_"])
def test_keys_tokens_and_tickets_are_cut_in_whatever_text(kind: str) -> None:
    record = logging.makeLogRecord({"msg": f"/account/join/{kind}0123456789-_abcXYZ/ failed"})
    line = JsonFormatter().format(record)
    assert f"/account/join/{kind}01234567…/ failed" in line


def test_secret_of_an_access_key_is_cut_in_whatever_text() -> None:
    record = logging.makeLogRecord({"msg": "sqs://MQAKABCDEFGH2345:mqs_0123456789-_abcXYZ@ failed"})
    assert "sqs://MQAKABCDEFGH2345:mqs_…@ failed" in JsonFormatter().format(record)


def test_celerys_chat_is_not_logged_and_its_trouble_is() -> None:
    logger = logging.getLogger("celery.worker.consumer.connection")  # one that names its broker
    assert not logger.isEnabledFor(logging.INFO)
    assert logger.isEnabledFor(logging.WARNING)
