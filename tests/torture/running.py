"""Runs jobs in processes of their own, each with a time limit, and keeps what went wrong with them.

    jobs ──▶ [run_jobs] ──▶ processes ──▶ Part of each, as they end

A job that raises, takes too long or takes its process with it is an anomaly of the run: nobody
knows what it would have found.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import FrameType
from typing import Final, NamedTuple

from tests.torture.evidence import Anomaly, Part

JOB_S_MAX: Final = 1_800


class Job(NamedTuple):
    """A function of ``work`` and its arguments."""

    work: Callable[..., Part]
    arguments: tuple[object, ...]

    @property
    def name(self) -> str:
        return f"{self.work.__name__}{self.arguments}"


class TookTooLong(BaseException):
    """Not an ``Exception``: a harness that looks for planted bugs takes any of those as caught."""


def run_jobs(jobs: list[Job], process_count: int) -> Iterator[Part]:
    """The part of each job, in the order in which they end."""
    # Not forked: an engine in the child must not inherit locks of threads that it has not.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(process_count, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(_limited, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is None:
                    yield future.result()
                else:
                    name = "took-too-long" if isinstance(error, TookTooLong) else "harness-failed"
                    yield Part(anomalies=[Anomaly(name, f"{futures[future].name}: {error!r}")])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _limited(job: Job) -> Part:
    signal.signal(signal.SIGALRM, _took_too_long)
    signal.alarm(JOB_S_MAX)
    try:
        return job.work(*job.arguments)
    finally:
        signal.alarm(0)


def _took_too_long(number: int, frame: FrameType | None) -> None:
    raise TookTooLong(f"more than {JOB_S_MAX} s")
