"""Descriptor sets for tests, made as protoc makes them, and messages of their types."""

from __future__ import annotations

import base64

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message,
    message_factory,
    struct_pb2,
    text_format,
    timestamp_pb2,
    wrappers_pb2,
)

_WELL_KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
ORDER = """
name: "order.proto" package: "shop" syntax: "proto3"
dependency: "google/protobuf/any.proto" dependency: "google/protobuf/duration.proto"
dependency: "google/protobuf/struct.proto" dependency: "google/protobuf/timestamp.proto"
dependency: "google/protobuf/wrappers.proto"
enum_type { name: "State" value { name: "NEW" number: 0 } value { name: "PAID" number: 3 }
            value { name: "LOST" number: -1 } }
message_type {
  name: "Order"
  field { name: "d" number: 1 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "f" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "i64" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "u64" number: 4 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "i32" number: 5 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "x64" number: 6 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "x32" number: 7 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  field { name: "b" number: 8 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "s" number: 9 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "raw" number: 10 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "u32" number: 11 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "state" number: 12 type: TYPE_ENUM type_name: ".shop.State" label: LABEL_OPTIONAL }
  field { name: "sx32" number: 13 type: TYPE_SFIXED32 label: LABEL_OPTIONAL }
  field { name: "sx64" number: 14 type: TYPE_SFIXED64 label: LABEL_OPTIONAL }
  field { name: "z32" number: 15 type: TYPE_SINT32 label: LABEL_OPTIONAL }
  field { name: "z64" number: 16 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "items" number: 17 type: TYPE_MESSAGE type_name: ".shop.Order.Item"
          label: LABEL_REPEATED }
  field { name: "packed" number: 18 type: TYPE_SINT32 label: LABEL_REPEATED }
  field { name: "loose" number: 19 type: TYPE_SFIXED32 label: LABEL_REPEATED
          options { packed: false } }
  field { name: "states" number: 20 type: TYPE_ENUM type_name: ".shop.State"
          label: LABEL_REPEATED }
  field { name: "texts" number: 21 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "counts" number: 22 type: TYPE_MESSAGE type_name: ".shop.Order.CountsEntry"
          label: LABEL_REPEATED }
  field { name: "by_id" number: 23 type: TYPE_MESSAGE type_name: ".shop.Order.ByIdEntry"
          label: LABEL_REPEATED }
  field { name: "card" number: 24 type: TYPE_STRING oneof_index: 0 label: LABEL_OPTIONAL }
  field { name: "cash" number: 25 type: TYPE_INT64 oneof_index: 0 label: LABEL_OPTIONAL }
  field { name: "gift" number: 26 type: TYPE_MESSAGE type_name: ".shop.Order.Item" oneof_index: 0
          label: LABEL_OPTIONAL }
  field { name: "before" number: 27 type: TYPE_MESSAGE type_name: ".shop.Order"
          label: LABEL_OPTIONAL }
  field { name: "at" number: 28 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp"
          label: LABEL_OPTIONAL }
  field { name: "took" number: 29 type: TYPE_MESSAGE type_name: ".google.protobuf.Duration"
          label: LABEL_OPTIONAL }
  field { name: "any" number: 30 type: TYPE_MESSAGE type_name: ".google.protobuf.Any"
          label: LABEL_OPTIONAL }
  field { name: "more" number: 31 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct"
          label: LABEL_OPTIONAL }
  field { name: "limit" number: 32 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value"
          label: LABEL_OPTIONAL }
  nested_type {
    name: "Item"
    field { name: "sku" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "count" number: 2 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "CountsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "ByIdEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Order.Item"
            label: LABEL_OPTIONAL }
  }
  oneof_decl { name: "payment" }
}
"""
LEGACY = """
name: "legacy.proto" syntax: "proto2"
message_type {
  name: "Legacy"
  field { name: "line" number: 1 type: TYPE_GROUP type_name: ".Legacy.Line" label: LABEL_REPEATED }
  field { name: "numbers" number: 3 type: TYPE_INT32 label: LABEL_REPEATED }
  nested_type {
    name: "Line" field { name: "text" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
}
"""


def file_of(text: str) -> descriptor_pb2.FileDescriptorProto:
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto())


def set_of(*texts: str, has_imports: bool = True) -> str:
    """As ``protoc --include_imports --descriptor_set_out`` writes it, in base64."""
    found = descriptor_pb2.FileDescriptorSet()
    if has_imports:
        for each in _WELL_KNOWN:
            each.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.extend(file_of(text) for text in texts)
    return base64.b64encode(found.SerializeToString()).decode()


def message_class(text: str, name: str) -> type[message.Message]:
    pool = descriptor_pool.DescriptorPool()
    for each in _WELL_KNOWN:
        file = descriptor_pb2.FileDescriptorProto()
        each.DESCRIPTOR.CopyToProto(file)
        pool.Add(file)
    pool.Add(file_of(text))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
