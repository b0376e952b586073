"""Everything that a program does with queues, by AWS's command line as it is.

Run by the Python that ``awscli`` is installed for; each command is one of ``aws sqs``.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from awscli.clidriver import create_clidriver  # type: ignore[import-not-found] # not in our env

PREFIX = os.environ["PREFIX"]
ENDPOINT = ("--endpoint-url", os.environ["AWS_ENDPOINT_URL_SQS"])
AWS = Path(sys.executable).with_name("aws")


def aws(command: str, *options: str, fails: str = "") -> Any:  # Any: JSON
    """The reply; with ``fails``, the command must end with an error of this code."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = create_clidriver().main([*ENDPOINT, "sqs", command, *options])
    if fails:
        assert code, output.getvalue()
        assert f"({fails})" in errors.getvalue(), errors.getvalue()
        return None
    assert code == 0, errors.getvalue()
    return json.loads(output.getvalue() or "{}")


def create(name: str, **attributes: str) -> str:
    made = aws(
        "create-queue", "--queue-name", f"{PREFIX}-{name}", "--attributes", json.dumps(attributes)
    )
    return str(made["QueueUrl"])


def send(queue: str, body: str, *options: str) -> dict[str, Any]:  # Any: JSON
    sent = aws("send-message", "--queue-url", queue, "--message-body", body, *options)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    return dict(sent)


def receiving(queue: str, seconds: int) -> list[str]:
    asked = ["--message-attribute-names", "All", "--message-system-attribute-names", "All"]
    wait = ["--wait-time-seconds", str(seconds), "--max-number-of-messages", "10"]
    return ["receive-message", "--queue-url", queue, *wait, *asked]


def receive(queue: str, seconds: int) -> list[dict[str, Any]]:  # Any: JSON
    messages = aws(*receiving(queue, seconds)).get("Messages", ())
    for each in messages:
        assert each["MD5OfBody"] == hashlib.md5(each["Body"].encode()).hexdigest()
    return list(messages)


def settle(command: str, queue: str, message: dict[str, Any], *options: str) -> None:  # Any: JSON
    receipt = ["--receipt-handle", message["ReceiptHandle"]]
    aws(command, "--queue-url", queue, *receipt, *options)


def remove(queue: str, *messages: dict[str, Any]) -> None:  # Any: JSON
    for message in messages:
        settle("delete-message", queue, message)


def give_back(queue: str, message: dict[str, Any]) -> None:  # Any: JSON
    settle("change-message-visibility", queue, message, "--visibility-timeout", "0")


def main() -> None:
    dead = create("dead")
    arn = aws("get-queue-attributes", "--queue-url", dead, "--attribute-names", "QueueArn")
    arn = arn["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    queue = create("orders", RedrivePolicy=policy)
    fifo = create("orders.fifo", FifoQueue="true")
    print("created")

    attributes = {
        "color": {"DataType": "String", "StringValue": "größe"},
        "count": {"DataType": "Number.int", "StringValue": "42"},
        "bytes": {"DataType": "Binary", "BinaryValue": "plain"},
    }
    sent = send(queue, "with attributes", "--message-attributes", json.dumps(attributes))
    (first,) = receive(queue, 5)
    assert first["MessageId"] == sent["MessageId"]
    assert first["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    attributes["bytes"]["BinaryValue"] = base64.b64encode(b"plain").decode()
    assert first["MessageAttributes"] == attributes
    assert first["Attributes"]["ApproximateReceiveCount"] == "1"
    remove(queue, first)
    print("attributes")

    entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(("a", "\0", "b"))]
    batch = aws("send-message-batch", "--queue-url", queue, "--entries", json.dumps(entries))
    assert [each["Id"] for each in batch["Successful"]] == ["0", "2"]
    (failed,) = batch["Failed"]
    assert (failed["Id"], failed["Code"]) == ("1", "InvalidMessageContents")
    found: list[dict[str, Any]] = []  # Any: JSON
    while len(found) < 2:
        found += receive(queue, 5)
    assert sorted(each["Body"] for each in found) == ["a", "b"]
    remove(queue, *found)
    print("batch")

    assert receive(queue, 1) == []
    command = [str(AWS), *ENDPOINT, "sqs", *receiving(queue, 20)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as waiting:
        send(queue, "late")
        output, _ = waiting.communicate()
    (late,) = json.loads(output)["Messages"]
    assert late["Body"] == "late"
    print("long poll")

    give_back(queue, late)
    (again,) = receive(queue, 5)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    print("visibility")

    give_back(queue, again)
    (letter,) = receive(dead, 20)
    assert letter["MessageId"] == late["MessageId"]
    give_back(dead, letter)
    aws("start-message-move-task", "--source-arn", arn)
    (redriven,) = receive(queue, 20)
    assert redriven["Body"] == "late"
    remove(queue, redriven)
    print("redrive")

    for number in ("1", "2", "2", "3"):
        send(fifo, number, "--message-group-id", "g", "--message-deduplication-id", number)
    ordered = receive(fifo, 5)
    assert [each["Body"] for each in ordered] == ["1", "2", "3"]
    remove(fifo, *ordered)
    print("fifo")

    to_none = ["--queue-url", f"{queue}-none", "--message-body", "no"]
    aws("send-message", *to_none, fails="AWS.SimpleQueueService.NonExistentQueue")
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
    aws("send-message", *to_none, fails="SignatureDoesNotMatch")
    os.environ["AWS_SECRET_ACCESS_KEY"] = secret
    print("refused")

    for url in (queue, dead, fifo):
        aws("delete-queue", "--queue-url", url)
    aws(*receiving(queue, 0), fails="AWS.SimpleQueueService.NonExistentQueue")
    print("deleted")


if __name__ == "__main__":
    main()
