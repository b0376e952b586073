"""What many operations have in common: rate headers in responses, idempotency keys in requests.

paths ──▶ [add_rates] ──▶ RateLimit headers on all responses to requests with a key
operation ──▶ [add_idempotency_key] ──▶ its parameter, and the header of a repeated response
"""

from __future__ import annotations

from mqservice.reference.parts import IDEMPOTENCY_KEY, JsonObject, header_refs

_RATES = header_refs("RateLimitPolicy", "RateLimit")


def add_rates(paths: JsonObject) -> None:
    """To every response of an operation that needs a key, except 401."""
    for path, methods in paths.items():
        for operation in methods.values():
            if not path.startswith("/v1/") or operation.get("security") == []:
                continue
            for status, response in operation["responses"].items():
                if status != "401":
                    response["headers"] = {**response.get("headers", {}), **_RATES}


def add_idempotency_key(operation: JsonObject) -> None:
    """To a POST of a namespace of the control plane."""
    operation["parameters"].append(IDEMPOTENCY_KEY)
    for response in operation["responses"].values():
        response["headers"] = {
            **response.get("headers", {}),
            **header_refs("IdempotencyReplayed"),
        }
