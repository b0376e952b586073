"""What is wrong with a schema."""

from __future__ import annotations


class SchemaFault(ValueError):
    """A definition that no body can be decoded by; the text says where and why."""


class MessageFault(SchemaFault):
    """The definition is fine, but it does not have the message that is named, or has several."""
