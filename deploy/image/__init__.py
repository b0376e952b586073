"""Builds the container image and writes its bill of materials."""

from __future__ import annotations
