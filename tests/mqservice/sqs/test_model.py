"""Botocore's own model of SQS says what actions, parameters, replies and errors there are."""

from __future__ import annotations

import botocore.session
import msgspec
import pytest
from botocore.model import ServiceModel

from mqservice.sqs.errors import KINDS
from mqservice.sqs.plane import _MESSAGE_ACTIONS
from mqservice.sqs.protocol import JSON_TYPE
from mqservice.sqs.queue_services import ACTIONS
from mqservice.sqs.requests import REQUESTS
from tests.mqservice.sqs.query_model import query_models


@pytest.fixture(scope="module")
def model() -> ServiceModel:
    return botocore.session.Session().get_service_model("sqs")


def test_every_action_is_served(model: ServiceModel) -> None:
    assert set(model.operation_names) == set(REQUESTS)
    assert set(REQUESTS) == set(_MESSAGE_ACTIONS) | set(ACTIONS)
    assert not set(_MESSAGE_ACTIONS) & set(ACTIONS)
    assert f"application/x-amz-json-{model.metadata['jsonVersion']}" == JSON_TYPE.decode()


def test_every_parameter_is_read(model: ServiceModel) -> None:
    for action, kind in REQUESTS.items():
        shape = model.operation_model(action).input_shape
        fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
        assert set(shape.members) == set(fields), action
        required = {name for name, each in fields.items() if each.required}
        assert required <= set(shape.required_members), action


def test_every_error_has_its_code_and_status(model: ServiceModel) -> None:
    session = botocore.session.Session()
    session.get_component("data_loader").search_paths.insert(0, str(query_models()))
    older = session.get_service_model("sqs")
    names = {
        error.name
        for action in model.operation_names
        for error in model.operation_model(action).error_shapes
        if not error.name.startswith("Kms")
    }
    assert names <= set(KINDS)
    for error in older.error_shapes:
        told = error.metadata.get("error", {})
        if error.name in KINDS and told:
            expected = (told["code"], told.get("httpStatusCode", 400))
            assert KINDS[error.name][:2] == expected, error.name
