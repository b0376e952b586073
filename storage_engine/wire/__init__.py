"""The engine's socket: frames, requests and replies, and the clients that speak them.

``storage_engine.client`` is the door that other packages use.
"""
