"""The asynchronous client. ``sync`` is made from these modules: ``python -m clients.generate``."""
