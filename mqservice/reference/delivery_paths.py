"""The data plane's part of the document: each row of ``delivery.operations`` as OpenAPI."""

from __future__ import annotations

from mqservice.delivery.operation import Body, Operation
from mqservice.delivery.reading.query import Number, Parameter, QueueNumber, Text, Time
from mqservice.reference.parts import (
    COMMON_CODES,
    IDEMPOTENCY_KEY,
    PATH_PARAMETERS,
    REQUEST_ID,
    TIME_SCHEMA,
    JsonObject,
    header_parameter,
    json_content,
    problems,
    query_parameter,
    ref,
    response_object,
)


def operation_object(operation: Operation) -> JsonObject:
    """An operation of the data plane."""
    replies = {
        str(reply.status): response_object(
            reply.text, json_content(ref(reply.struct.__name__), reply.example)
        )
        for reply in operation.replies
    }
    built: JsonObject = {
        "operationId": operation.operation_id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nNeeds a key with the scope "
        f"`{operation.scope}`.",
        "parameters": [
            *(PATH_PARAMETERS[name] for name in operation.path_names),
            *([IDEMPOTENCY_KEY] if operation.takes_idempotency_key else []),
            *(header_parameter(name, text) for name, text in operation.headers.items()),
            *(_query_parameter(parameter) for parameter in operation.parameters),
            REQUEST_ID,
        ],
        "responses": {**replies, **problems((*COMMON_CODES, *operation.all_codes))},
    }
    if operation.body is not None:
        built["requestBody"] = _body(operation.body)
    return built


def _body(body: Body) -> JsonObject:
    schema = ref(body.struct.__name__)
    if body.items_max is not None:
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": body.items_max}
    return {
        "required": body.is_required,
        "content": {**json_content(schema, body.example), **body.other_types},
    }


def _query_parameter(parameter: Parameter[object]) -> JsonObject:
    schema = _schema(parameter)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return query_parameter(
        parameter.name, parameter.text, schema, is_required=parameter.is_required
    )


def _schema(parameter: Parameter[object]) -> JsonObject:
    match parameter:
        case Number():
            return {"type": "integer", "minimum": parameter.low, "maximum": parameter.high}
        case QueueNumber():
            return {"type": "integer", "minimum": 0}
        case Time():
            return dict(TIME_SCHEMA)
        case Text():
            schema: JsonObject = {"type": "string"}
            if parameter.chars_min:
                schema["minLength"] = parameter.chars_min
            if parameter.chars_max is not None:
                schema["maxLength"] = parameter.chars_max
            return schema
    raise AssertionError(f"no schema for {parameter}")
