"""The public protocol as plain definitions: frames of the WebSocket, messages, limits, choices.

The service, the reference pages, the command line, the benchmarks and clients import these, so
nothing here imports Django or the engine's client.
"""
