"""Both protocols of SQS: bytes of a request to one form, and replies and errors back to bytes.

    X-Amz-Target: AmazonSQS.SendMessage, JSON ─┐               ┌─▶ JSON 1.0
    Action=SendMessage&MessageBody=… ──────────┴─▶ Call ─▶ … ──┴─▶ XML

The query protocol writes lists and maps as numbered parameters: ``Attribute.1.Name``, or
``SendMessageBatchRequestEntry.2.MessageBody``. Its responses have one element for each item of a
list, named in the singular.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import msgspec

from mqservice.sqs.errors import NO_SUCH_QUEUE, SqsError, missing_parameter
from mqservice.sqs.message_attributes import xml_text
from mqservice.sqs.replies import Reply
from mqservice.sqs.requests import REQUESTS, Request

JSON_TYPE: Final = b"application/x-amz-json-1.0"
XML_TYPE: Final = b"text/xml"
TARGET: Final = b"x-amz-target"
_TARGET_PREFIX: Final = "AmazonSQS."
_XMLNS: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
_ERROR_SHAPES: Final = "com.amazonaws.sqs#"
# A batch of ten messages with ten attributes each takes some 500.
_PARAMETERS_MAX: Final = 2_000
_NUMBER_DIGITS_MAX: Final = 9  # of an item of a list
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_AT: Final = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)

# What the query protocol calls items of lists and maps.
_LISTS: Final = {
    "ActionName": "Actions",
    "AttributeName": "AttributeNames",
    "AWSAccountId": "AWSAccountIds",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "TagKey": "TagKeys",
}
_MAPS: Final = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
_PLURALS: Final = {"Entries", *_LISTS.values(), *(name for name, _ in _MAPS.values())}
_ITEMS: Final = {
    "Failed": "BatchResultErrorEntry",
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Results": "ListMessageMoveTasksResultEntry",
}
_ENTRIES: Final = {
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "SendMessageBatch": "SendMessageBatchRequestEntry",
}
# What the query protocol refuses at the URL of a queue.
_OF_NO_QUEUE: Final = frozenset({"CreateQueue", "ListQueues"})
# Of a request without parameters: AWS's answer to it has no code, no message and no request id.
NO_OPERATION: Final = "UnknownOperationException"
_SIGNATURE_PREFIX: Final = "X-Amz-"
_WRONG_JSON: Final = "SerializationException"
# Where the query protocol says more than JSON does.
_QUERY_MESSAGES: Final = {NO_SUCH_QUEUE: f"{NO_SUCH_QUEUE.rstrip('.')} for this wsdl version."}
_ITEM_OF_MAP: Final = {name: (item, key) for item, (name, key) in _MAPS.items()}

_encode: Final = msgspec.json.Encoder().encode
_decoders: Final = {name: msgspec.json.Decoder(kind).decode for name, kind in REQUESTS.items()}
Json = Any  # Any: JSON, or the tree of a query before it is converted


class Call(NamedTuple):
    """One action asked for. ``is_json``: in which protocol, which is that of the reply."""

    action: str
    request: Request
    is_json: bool


def is_json_request(headers: dict[bytes, bytes]) -> bool:
    """Which protocol a request speaks, whatever else is wrong with it."""
    return TARGET in headers


def read_call(headers: dict[bytes, bytes], query: bytes, body: bytes, queue_url: str) -> Call:
    """What is asked for. Raises SqsError.

    ``queue_url``: that of the path, "" if it is none; it counts where no other is given.
    """
    if TARGET in headers:
        return _read_json(headers[TARGET].decode("latin-1"), body, queue_url)
    return _read_query(query, body, queue_url)


def _read_json(target: str, body: bytes, queue_url: str) -> Call:
    action = target.removeprefix(_TARGET_PREFIX)
    decode = _decoders.get(action)
    if decode is None or not target.startswith(_TARGET_PREFIX):
        raise _unknown_action(action)
    body = body or b"{}"
    try:
        try:
            return Call(action, decode(body), is_json=True)
        except msgspec.ValidationError:
            fields = _without_nulls(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SqsError(_WRONG_JSON, f"The body is not valid JSON: {exc}") from exc
    if queue_url and isinstance(fields, dict):
        fields.setdefault("QueueUrl", queue_url)
    return Call(action, _converted(action, fields, is_strict=True), is_json=True)


def _without_nulls(value: Json) -> Json:
    """What is null is as if it were not there, as with AWS."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _read_query(query: bytes, body: bytes, queue_url: str) -> Call:
    tree: dict[str, Json] = {}
    try:
        for part in (query, body):
            for name, value in parse_qsl(
                part.decode(), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX
            ):
                _plant(tree, name.split("."), value)
    except ValueError as exc:  # UnicodeDecodeError is one
        detail = f"The request is not a list of parameters: {exc}"
        raise SqsError("MalformedQueryString", detail) from exc
    if all(name.startswith(_SIGNATURE_PREFIX) for name in tree):
        raise SqsError(NO_OPERATION, "The request names no action.")
    action = tree.get("Action")
    if not isinstance(action, str) or not action:
        raise SqsError("MissingAction", "The request must contain the parameter Action.")
    if action not in REQUESTS or (queue_url and action in _OF_NO_QUEUE):
        raise _unknown_action(action)
    fields = _expanded(tree, _ENTRIES.get(action, ""))
    if action == "CreateQueue":  # the one map that JSON names in lower case
        fields["tags"] = fields.pop("Tags", {})
    if queue_url:
        fields.setdefault("QueueUrl", queue_url)
    return Call(action, _converted(action, fields, is_strict=False), is_json=False)


def _plant(tree: dict[str, Json], path: list[str], value: str) -> None:
    """Put a value where the parts of its name say. Raises ValueError for two in one place."""
    *branches, leaf = path
    for branch in branches:
        tree = tree.setdefault(branch, {})
        if not isinstance(tree, dict):
            raise ValueError(f"{'.'.join(path)} is below a parameter that has a value")
    if isinstance(tree.get(leaf), dict):
        raise ValueError(f"{'.'.join(path)} is above other parameters")
    tree[leaf] = value


def _expanded(tree: dict[str, Json], entries: str) -> dict[str, Json]:
    """The tree as JSON has it: numbered items as lists and maps. Those that are empty stand there
    under their own names, as SDKs write them, with no text.
    """
    fields: dict[str, Json] = {}
    for name, value in tree.items():
        if name == entries and entries:
            fields["Entries"] = [_expanded(each, "") for each in _numbered(name, value)]
        elif name in _LISTS:
            fields[_LISTS[name]] = list(_numbered(name, value, is_text=True))
        elif name in _MAPS:
            plural, key = _MAPS[name]
            fields[plural] = {}
            for item in _numbered(name, value):
                if not isinstance(item.get(key), str):
                    raise missing_parameter(f"{name}.{key}")
                fields[plural][item[key]] = item.get("Value", "")
        elif value or name not in _PLURALS:
            fields[name] = value
        elif name == "Entries":
            fields[name] = []
    return fields


def _numbered(name: str, value: Json, *, is_text: bool = False) -> Iterator[Json]:
    """The items of a list, by their numbers. One without a number is the first, as AWS has it."""
    if isinstance(value, str) or not all(
        number.isdecimal() and len(number) <= _NUMBER_DIGITS_MAX for number in value
    ):
        value = {"1": value}
    for number in sorted(value, key=int):
        item = value[number]
        if isinstance(item, str) is not is_text:
            raise SqsError("MalformedQueryString", f"{name}.{number} is not as it should be.")
        yield item


def _converted(action: str, fields: Json, *, is_strict: bool) -> Request:
    try:
        return msgspec.convert(fields, REQUESTS[action], strict=is_strict)
    except msgspec.ValidationError as exc:
        raise _fault_of(exc, _WRONG_JSON if is_strict else "InvalidParameterValue") from exc


def _fault_of(exc: msgspec.ValidationError, name: str) -> SqsError:
    """``name``: of the error of a parameter that has another type."""
    text, where = str(exc), ""
    if match := _AT.fullmatch(text):
        text, where = match[1], match[2]
    if match := _MISSING.fullmatch(text):
        return missing_parameter(f"{where}.{match[1]}" if where else match[1])
    return SqsError(name, f"{where or 'The request'}: {text}.")


def _unknown_action(action: str) -> SqsError:
    detail = f"The action {action[:100]} is not valid for this endpoint."
    return SqsError("InvalidAction", detail)


# Replies -----------------------------------------------------------------------------------------


def encode_reply(call: Call, reply: msgspec.Struct, request_id: str) -> tuple[bytes, bytes]:
    """The response's body and its content type."""
    if call.is_json:
        return (b"" if type(reply) is Reply else _encode(reply)), JSON_TYPE
    action = call.action
    result = "" if type(reply) is Reply else _result_xml(action, reply)
    content = (
        f'<?xml version="1.0"?><{action}Response xmlns="{_XMLNS}">{result}<ResponseMetadata>'
        f"<RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    )
    return content.encode(), XML_TYPE


def encode_error(error: SqsError, request_id: str, *, is_json: bool) -> tuple[bytes, bytes]:
    """The response's body and its content type."""
    if is_json:
        return _encode({"__type": _ERROR_SHAPES + error.shape, "message": error.message}), JSON_TYPE
    if error.name == NO_OPERATION:
        return f"<{NO_OPERATION}/>".encode(), XML_TYPE
    kind = "Sender" if error.is_sender_fault else "Receiver"
    message = _QUERY_MESSAGES.get(error.message, error.message)
    content = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{_XMLNS}"><Error><Type>{kind}</Type>'
        f"<Code>{error.code}</Code><Message>{_text(message)}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return content.encode(), XML_TYPE


def error_header(error: SqsError) -> tuple[bytes, bytes]:
    """By which clients of the JSON protocol know the older code."""
    kind = "Sender" if error.is_sender_fault else "Receiver"
    return b"x-amzn-query-error", f"{error.code};{kind}".encode()


def _result_xml(action: str, reply: msgspec.Struct) -> str:
    fields = msgspec.to_builtins(reply, builtin_types=())
    content = _fields_xml(action, fields)
    return f"<{action}Result>{content}</{action}Result>" if content else f"<{action}Result/>"


def _fields_xml(action: str, fields: dict[str, Json]) -> str:
    parts = []
    for name, value in fields.items():
        if name in _ITEM_OF_MAP:
            item, key = _ITEM_OF_MAP[name]
            parts += [
                f"<{item}><{key}>{_text(each)}</{key}><Value>{_value_xml(action, held)}</Value>"
                f"</{item}>"
                for each, held in value.items()
            ]
        elif isinstance(value, list):
            item = f"{action}ResultEntry" if name == "Successful" else _ITEMS[name]
            parts += [f"<{item}>{_value_xml(action, each)}</{item}>" for each in value]
        else:
            parts.append(f"<{name}>{_value_xml(action, value)}</{name}>")
    return "".join(parts)


def _value_xml(action: str, value: Json) -> str:
    if isinstance(value, dict):
        return _fields_xml(action, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(str(value))


def _text(text: str) -> str:
    """A carriage return would be read as a line feed."""
    return escape(xml_text(text), {"\r": "&#13;"})
