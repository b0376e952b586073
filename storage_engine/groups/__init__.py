"""What a group's settings mean: who reads which queue, when a failed message is redelivered, and as
which record.

Pure functions; no file, no clock and no socket is touched. Below ``wire``, so that its structs can
be part of a group's configuration.
"""
