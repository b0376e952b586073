"""Message attributes of SQS and properties of ours, and the digests that SDKs check.

    attribute            property                             __MQ_SQS, a property of ours
    String "blue"        colour=blue
    Number "42"          size=42                              {"size": "Number"}
    Binary b"\\x00"       photo=AA==                           {"photo": "Binary"}
    String "a\\nb"        note=YQpi, base64: no control        {"note": "=String"}
                         characters in properties

So every face sees the values, and SQS sees the types; a property set by another face is a String.
The digest of attributes is AWS's: of each one, by name, the lengths and bytes of name, type and
value, with 1 for text and 2 for bytes between them.
"""

from __future__ import annotations

import binascii
import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from mqservice.delivery.bodies import SQS_PROPERTY
from mqservice.sqs.errors import SqsError, invalid_value
from mqservice.sqs.replies import AttributeReply
from mqservice.sqs.requests import Attributes, AttributeValue

TRACE_HEADER: Final = "AWSTraceHeader"
BODY_MARK: Final = "mq-body-encoding"
"""The attribute that says of a body that is no text how it is encoded."""
BASE64: Final = "base64"
COUNT_MAX: Final = 10
_NAME_CHARS_MAX: Final = 256
_TYPE: Final = re.compile(r"(String|Number|Binary)(\.[^\x00-\x1f]+)?")
_NAME: Final = re.compile(r"[\w-]+(\.[\w-]+)*")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# What XML 1.0 has no way to write, and SQS takes nowhere.
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ID_VERSION: Final = "01"
_ID_CHARS: Final = 34
_AS_BASE64: Final = "="
_length: Final = struct.Struct(">I").pack
_decode_types: Final = msgspec.json.Decoder(dict[str, str]).decode


def check_text(text: str) -> None:
    """Raises SqsError unless SQS takes it as the body of a message."""
    if not _is_xml(text):
        detail = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to "
        raise SqsError("InvalidMessageContents", detail + "#xD7FF | #xE000 to #xFFFD | above.")


def body_text(body: bytes) -> str | None:
    """The body as SQS shows it; None for one that is no text."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if _is_xml(text) else None


def xml_text(text: str) -> str:
    """As XML can write it."""
    return text if _is_xml(text) else _NOT_XML.sub("\ufffd", text)


def _is_xml(text: str) -> bool:
    """Whether XML can write it. What is printable it can, and that is quickly known."""
    return text.isprintable() or not _NOT_XML.search(text)


def properties_of(attributes: Attributes) -> dict[str, str]:
    """Raises SqsError for an attribute that AWS would refuse."""
    if len(attributes) > COUNT_MAX:
        detail = f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
        raise SqsError("InvalidParameterValue", f"{detail} [{COUNT_MAX}].")
    properties: dict[str, str] = {}
    types: dict[str, str] = {}
    for name, attribute in attributes.items():
        _check_name(name)
        kind, value = _checked(name, attribute)
        if isinstance(value, bytes):
            properties[name], types[name] = _base64(value), kind
        elif not value or value.isspace() or _CONTROL.search(value):
            properties[name], types[name] = _base64(value.encode()), _AS_BASE64 + kind
        else:
            properties[name] = value
            if kind != "String":
                types[name] = kind
    if types:
        properties[SQS_PROPERTY] = msgspec.json.encode(types).decode()
    return properties


def attributes_of(properties: Mapping[str, str]) -> dict[str, AttributeReply]:
    """What ``properties_of`` was given; of properties of other faces, Strings."""
    marks = properties.get(SQS_PROPERTY)
    types = {} if marks is None else _decode_types(marks)
    found = {}
    for name, value in properties.items():
        if name in (SQS_PROPERTY, TRACE_HEADER):
            continue
        kind = types.get(name, "String")
        if kind.startswith("Binary"):
            found[name] = AttributeReply(
                data_type=kind, binary_value=binascii.a2b_base64(value, strict_mode=True)
            )
            continue
        if kind.startswith(_AS_BASE64):
            kind = kind.removeprefix(_AS_BASE64)
            value = binascii.a2b_base64(value, strict_mode=True).decode()
        found[name] = AttributeReply(data_type=kind, string_value=value)
    return found


def wanted_of(
    attributes: dict[str, AttributeReply], names: Sequence[str]
) -> dict[str, AttributeReply]:
    """Those that a receive asks for: by name, by how names begin (``foo.*``), or all."""
    if not names:
        return {}
    if not {"All", "*", ".*"}.isdisjoint(names):
        return attributes
    whole = {name for name in names if not name.endswith(".*")}
    starts = tuple(name.removesuffix(".*") for name in names if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in whole or (starts and name.startswith(starts))
    }


def md5_of_attributes(
    attributes: Mapping[str, AttributeValue] | Mapping[str, AttributeReply],
) -> str | None:
    """As SDKs compute it; None of no attributes."""
    if not attributes:
        return None
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        for text in (name.encode(), attribute.data_type.encode()):
            digest.update(_length(len(text)) + text)
        if attribute.binary_value is not None:
            value, kind = attribute.binary_value, b"\2"
        else:
            value, kind = (attribute.string_value or "").encode(), b"\1"
        digest.update(kind + _length(len(value)) + value)
    return digest.hexdigest()


def shown_id(message_id: str) -> str:
    """A message's id as a UUID, which programs such as Spring Cloud AWS expect: ours without their
    version, 01. Ids of another form stay as they are.
    """
    if len(message_id) != _ID_CHARS or not message_id.startswith(_ID_VERSION):
        return message_id
    digits = message_id[len(_ID_VERSION) :].lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def bytes_of(attributes: Attributes) -> int:
    """What AWS counts of them against the size of a message."""
    return sum(
        len(name.encode())
        + len(value.data_type.encode())
        + len((value.string_value or "").encode())
        + len(value.binary_value or b"")
        for name, value in attributes.items()
    )


def trace_header_of(attributes: Attributes) -> str | None:
    """The one system attribute that may be sent. Raises SqsError for any other."""
    for name, value in attributes.items():
        if name != TRACE_HEADER:
            detail = f"Message system attribute name '{name}' is invalid."
            raise SqsError("InvalidParameterValue", detail)
        if value.data_type != "String" or not value.string_value:
            raise invalid_value(TRACE_HEADER, value.data_type, "It must be a String.")
        return value.string_value
    return None


def _check_name(name: str) -> None:
    is_own = name in (SQS_PROPERTY, TRACE_HEADER)
    is_reserved = is_own or name.lower().startswith(("aws.", "amazon."))
    if is_reserved or len(name) > _NAME_CHARS_MAX or not _NAME.fullmatch(name):
        detail = (
            f"Message attribute name '{name[:_NAME_CHARS_MAX]}' is invalid. It can have letters, "
            "digits, underscores, hyphens and single dots within, at most 256 characters, and "
            "must not begin with AWS. or Amazon., nor be what the service itself uses."
        )
        raise SqsError("InvalidParameterValue", detail)


def _checked(name: str, attribute: AttributeValue) -> tuple[str, str | bytes]:
    kind = attribute.data_type
    about = f"The message attribute '{name}'"
    if not kind:
        raise SqsError("InvalidParameterValue", f"{about} must contain a non-empty type.")
    if attribute.string_list_values or attribute.binary_list_values:
        raise SqsError("UnsupportedOperation", f"{about} has a list of values, which AWS reserves.")
    match = _TYPE.fullmatch(kind)
    if match is None or len(kind) > _NAME_CHARS_MAX:
        detail = (
            f"{about} has an invalid message attribute type, the set of supported type prefixes"
        )
        raise SqsError("InvalidParameterValue", f"{detail} is Binary, Number, and String.")
    value = attribute.binary_value if match[1] == "Binary" else attribute.string_value
    other = attribute.string_value if match[1] == "Binary" else attribute.binary_value
    if not value or other is not None:
        detail = f"Message (user) attribute '{name}' must contain a non-empty value of type"
        raise SqsError("InvalidParameterValue", f"{detail} '{kind}'.")
    if isinstance(value, str):
        if _NOT_XML.search(value):
            raise SqsError("InvalidParameterValue", f"{about} has characters that are invalid.")
        if match[1] == "Number" and not _NUMBER.fullmatch(value):
            detail = f"Can't cast the value of message attribute '{name}' to a number."
            raise SqsError("InvalidParameterValue", detail)
    return kind, value


def _base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")
