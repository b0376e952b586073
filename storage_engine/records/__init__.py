"""One message as bytes: the record's layout, its CRC, its parts, and the hashes of tags and keys.

Pure functions; no file and no clock is touched.
"""
