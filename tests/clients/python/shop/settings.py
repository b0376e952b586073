"""A small project whose tasks the tests enqueue and run, in processes of their own."""

from __future__ import annotations

import os
from typing import Any

import django

SECRET_KEY = "only for tests"
USE_TZ = True
LOGGING = {
    "version": 1,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"mqservice_client": {"handlers": ["console"], "level": "INFO"}},
}
INSTALLED_APPS = ["mqservice_client.django"]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["SHOP_DATABASE"],
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
    }
}
TASKS = {
    "default": {
        "BACKEND": "mqservice_client.django.TaskBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {
            "prefix": os.environ.get("SHOP_PREFIX", "tasks"),
            "lease": "5s",
            "send_timeout": os.environ.get("SHOP_SEND_TIMEOUT", "30s"),
        },
    },
    "stubborn": {
        "BACKEND": "mqservice_client.django.TaskBackend",
        "OPTIONS": {
            "prefix": f"{os.environ.get('SHOP_PREFIX', 'tasks')}-stubborn",
            "max_attempts": 3,
            "retry": {"policy": "list", "delays": ["100ms"]},
            "send_timeout": "2s",
        },
    },
}
