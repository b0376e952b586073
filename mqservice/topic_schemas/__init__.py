"""Avro and Protobuf schemas of topics, by which the console shows bodies decoded."""
