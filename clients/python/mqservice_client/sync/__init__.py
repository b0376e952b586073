# Made from aio/__init__.py by `python -m clients.generate`; change that instead.
"""The synchronous client."""
