"""How SQS names a queue: its account, URL and ARN, and the topic and group behind it.

    http://host/sqs/000000000042/orders.fifo     arn:aws:sqs:eu-west-1:000000000042:orders.fifo
                    namespace's  topic and group                  namespace's
                    account      orders_fifo                      account

Our names have no dots: a name that ends in ``.fifo`` is that of a FIFO topic which ends in
``_fifo``. A FIFO topic of another name, made by REST, is shown without an ending.

Account 000000000000, which ElasticMQ and LocalStack give to everybody, is that of whoever asks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mqservice.accounts.access import Principal
from mqservice.sqs.errors import SqsError, invalid_value, no_such_queue

PATH: Final = "/sqs"
QUEUE_NAME_CHARS_MAX: Final = 64  # AWS: 80; a topic's name has no more
FIFO_ENDING: Final = ".fifo"
_TOPIC_ENDING: Final = "_fifo"
_ACCOUNT_DIGITS: Final = 12
_ANY_ACCOUNT: Final = "0" * _ACCOUNT_DIGITS
_URL_BEGINNINGS: Final = ("http://", "https://")
_URL_CHARS_MAX: Final = 1_024
_URLS_MAX: Final = 4_096  # taken apart before: programs use few
_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]+(\{FIFO_ENDING})?", re.ASCII)
_ARN: Final = re.compile(r"arn:aws[\w-]*:sqs:[\w-]*:(\d{12}):([\w.-]+)", re.ASCII)


class QueueName(NamedTuple):
    """``name``: as SQS has it."""

    account: str
    name: str

    @property
    def topic(self) -> str:
        """The name of its topic and its group."""
        return topic_name(self.name)


def topic_name(name: str) -> str:
    if name.endswith(FIFO_ENDING):
        return name.removesuffix(FIFO_ENDING) + _TOPIC_ENDING
    return name


def queue_name(topic: str, *, is_fifo: bool) -> str:
    """As SQS has it."""
    if is_fifo and topic.endswith(_TOPIC_ENDING):
        return topic.removesuffix(_TOPIC_ENDING) + FIFO_ENDING
    return topic


def check_name(name: str) -> None:
    """Raises SqsError unless a queue may be called so."""
    if not (_NAME.fullmatch(name) and len(name) <= QUEUE_NAME_CHARS_MAX):
        detail = (
            "Can only include alphanumeric characters, hyphens, or underscores. "
            f"1 to {QUEUE_NAME_CHARS_MAX} in length"
        )
        raise SqsError("InvalidParameterValue", detail)


def account_of(principal: Principal) -> str:
    """Twelve digits that stay a namespace's. Raises SqsError for a key of several namespaces."""
    if principal.namespace_id is None:
        raise SqsError("AccessDenied", "The access key must be limited to one namespace.")
    return _account(principal.namespace_id)


@lru_cache(_URLS_MAX)
def _account(namespace_id: int) -> str:
    return f"{namespace_id:0{_ACCOUNT_DIGITS}d}"


def queue_url(base_url: str, account: str, name: str) -> str:
    return f"{base_url}{PATH}/{account}/{name}"


def queue_of_url(url: str, principal: Principal) -> QueueName:
    """The queue that a URL, or the path of one, means: the last two parts, whatever the host.

    Raises SqsError: it is none, or that of another account, which is as if it did not exist, as is
    any other URL.
    """
    if len(url) <= QUEUE_NAME_CHARS_MAX and _NAME.fullmatch(url):  # AWS takes its name alone too
        return QueueName(account_of(principal), url)
    queue = _split(url) if len(url) <= _URL_CHARS_MAX else None
    if queue is None and url.startswith(_URL_BEGINNINGS):
        raise no_such_queue()
    if queue is None:
        raise SqsError("InvalidAddress", f"The address {url[:200]} is not valid for this endpoint.")
    return _own(queue, principal)


@lru_cache(_URLS_MAX)
def _split(url: str) -> QueueName | None:
    try:
        parts = urlsplit(url).path.rstrip("/").split("/")
    except ValueError:  # a host in brackets that is no address
        return None
    if len(parts) < 2 or not (parts[-2].isdecimal() and _NAME.fullmatch(parts[-1])):
        return None
    return QueueName(parts[-2], parts[-1])


def queue_arn(region: str, account: str, name: str) -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"


def queue_of_arn(arn: str, parameter: str, principal: Principal) -> QueueName:
    """The queue that an ARN means, in whatever region. Raises SqsError as ``queue_of_url``."""
    match = _ARN.fullmatch(arn)
    if match is None:
        raise invalid_value(parameter, arn, "It is not the ARN of a queue.")
    return _own(QueueName(match[1], match[2]), principal)


def _own(queue: QueueName, principal: Principal) -> QueueName:
    require_own(queue.account, principal)
    return queue._replace(account=account_of(principal))


def require_own(account: str, principal: Principal) -> None:
    """Raises SqsError unless the account is that of who asks."""
    if account not in (account_of(principal), _ANY_ACCOUNT):
        raise no_such_queue()
