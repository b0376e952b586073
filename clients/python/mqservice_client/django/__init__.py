"""Django: a backend for its tasks, a command that runs them, and messages sent on commit.

    INSTALLED_APPS = [..., "mqservice_client.django"]
    TASKS = {"default": {"BACKEND": "mqservice_client.django.TaskBackend"}}

``manage.py migrate`` makes the table of tasks, ``manage.py mqservice_worker`` runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .publishing import publish_on_commit

if TYPE_CHECKING:
    from .backend import TaskBackend

__all__ = ["TaskBackend", "publish_on_commit"]


def __getattr__(name: str) -> object:
    # Loaded when it is asked for: apps are set up before there can be models.
    if name == "TaskBackend":
        from .backend import TaskBackend

        return TaskBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
