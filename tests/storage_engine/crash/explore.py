"""Runs a workload on a recorded disk, then recovers the store from every state a crash may leave.

    record(workload) ──▶ operations ──▶ Camera ──▶ distinct images ── each materialised ──▶ examine

An image that several moments allow is examined once, with the promises of the latest: what had been
told by then must hold whatever the disk did. Crashes inside recovery are found the same way: the
recovery of a sampled image is itself recorded, and each image of that recording is examined.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.storage_engine.crash.checker import AnotherBoot, examine
from tests.storage_engine.crash.disk_model import (
    PAGE_BYTES,
    DiskModel,
    Operation,
    Sync,
    Told,
    Write,
)
from tests.storage_engine.crash.images import Camera, Image, Place, Pool
from tests.storage_engine.crash.promises import Promises
from tests.storage_engine.crash.recorder import Recorder, read_tree
from tests.storage_engine.crash.story import LIMITS, Story
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.crash.workloads import WORKLOADS
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.stopping import kill

# A recovery is all memory: with real disks under it, a state would take a hundred times longer.
TWICE_EVERY: Final = 3  # every third state is recovered twice
RANDOM_COUNT: Final = 12  # random images at each moment, at first
RANDOM_COUNT_MAX: Final = 1_000
MEMORY: Final = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Explored(NamedTuple):
    """What one exploration did. Violations are (name of the anomaly, where and what)."""

    state_count: int  # left by power cuts, each another one
    killed_count: int  # left by kills, each another one
    operation_count: int
    answered_count: int
    fired: Counter[str]
    violations: list[tuple[str, str]]


class Images(NamedTuple):
    """Each image with the latest moment of the trace that allows it."""

    cut: dict[Image, int]  # by a power cut
    killed: dict[Image, int]  # by a kill: the page cache stays


class _Shot(NamedTuple):
    """One image, the moment of the trace it belongs to, and what ended the engine there."""

    image: Image
    moment: int
    was_killed: bool


class Exploration:
    """One recorded workload and its images."""

    def __init__(self, name: str, *, seed: int) -> None:
        self.name = name
        self.seed = seed
        self._directory = tempfile.TemporaryDirectory(prefix="crash", dir=MEMORY)
        self.root = Path(self._directory.name, "disk")
        self.root.mkdir()
        self.pool = Pool()
        self.operations: list[Operation] = []
        self.fired: Counter[str] = Counter()
        self.answered_count = 0

    def close(self) -> None:
        self._directory.cleanup()

    # Recording --------------------------------------------------------------------------------

    async def record(self) -> None:
        """Run the workload once; the disk is empty before."""
        recorder = Recorder(self.root)
        with recorder.recording():
            story = Story(self.root, recorder, LIMITS, seed=self.seed)
            await WORKLOADS[self.name](story)
            recorder.check()
            self.answered_count = story.answered_count
            kill(story.store.store)
        self.operations = recorder.operations
        self.fired = recorder.fired

    # Enumerating ------------------------------------------------------------------------------

    def images(self, wanted_count: int) -> Images:
        """Distinct images with the latest moment of the trace that allows each.

        Random draws are added until there are ``wanted_count``, or no more can be found.
        """
        random_count = RANDOM_COUNT
        while True:
            camera = Camera(self.pool, self.seed, random_count)
            found = enumerate_images({}, self.operations, camera)
            if len(found.cut) >= wanted_count or random_count >= RANDOM_COUNT_MAX:
                return found
            random_count *= 3

    def materialise(self, image: Image) -> None:
        """Make the directory hold exactly this image."""
        _empty(str(self.root))
        for path, number in image:
            if number == 0:
                os.mkdir(path)
            else:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
                os.write(descriptor, self.pool.contents[number])
                os.close(descriptor)

    # Judging ----------------------------------------------------------------------------------

    async def explore(self, state_max: int, *, violations_max: int = 1) -> Explored:
        """Examine up to ``state_max`` images, all of them or an even draw."""
        shots = self._drawn(self.images(state_max), state_max)
        violations: list[tuple[str, str]] = []
        state_count = killed_count = 0
        for shot, promises in self._with_promises(shots):
            state_count += not shot.was_killed
            killed_count += shot.was_killed
            self.materialise(shot.image)
            try:
                await examine(
                    self.root / "s",
                    promises,
                    LIMITS,
                    was_killed=shot.was_killed,
                    is_twice=state_count % TWICE_EVERY == 0,
                )
            except Violation as exc:
                violations.append((exc.name, f"{self.name} at operation {shot.moment}: {exc}"))
                if len(violations) >= violations_max:
                    break
        return Explored(
            state_count, killed_count, len(self.operations), self.answered_count, self.fired,
            violations,
        )  # fmt: skip

    async def explore_recoveries(
        self, state_max: int, *, recoveries_max: int = 40, violations_max: int = 1
    ) -> Explored:
        """Crash inside the recovery of drawn images, and examine what that leaves."""
        violations: list[tuple[str, str]] = []
        seen: set[Image] = set()
        share = -(-state_max // recoveries_max)
        operation_count = 0
        for shot, promises in self._with_promises(self._drawn(self.images(0), recoveries_max * 8)):
            if len(seen) >= state_max or len(violations) >= violations_max:
                break
            if shot.was_killed:
                continue
            self.materialise(shot.image)
            recorder = Recorder(self.root)
            before = read_tree(self.root)
            with recorder.recording():
                try:
                    files = AnotherBoot()
                    store = OpenStore(self.root / "s", limits=LIMITS, files=files)
                    kill(store.open().store)
                except Exception as exc:
                    where = f"{self.name}, recovery at {shot.moment}: {exc!r}"
                    violations.append(("refused", where))
                    continue
                recorder.check()
            operation_count += len(recorder.operations)
            camera = Camera(self.pool, self.seed, RANDOM_COUNT)
            inner = enumerate_images(before, recorder.operations, camera)
            fresh = [image for image in inner.cut if image not in seen]
            random.Random(self.seed).shuffle(fresh)
            for image in fresh[:share]:
                seen.add(image)
                self.materialise(image)
                try:
                    await examine(self.root / "s", promises, LIMITS)
                except Violation as exc:
                    where = f"{self.name}, in the recovery at {shot.moment}: {exc}"
                    violations.append((exc.name, where))
                    break
        return Explored(
            len(seen), 0, operation_count, self.answered_count, self.fired, violations
        )  # fmt: skip

    def _drawn(self, images: Images, count: int) -> list[_Shot]:
        """In the order of the trace; an even draw when there are more than ``count`` power cuts.

        Every kill is taken, beside them: there are few.
        """
        shots = [_Shot(image, moment, False) for image, moment in images.cut.items()]
        if len(shots) > count:
            shots = random.Random(self.seed).sample(shots, count)
        shots += [_Shot(image, moment, True) for image, moment in images.killed.items()]
        return sorted(shots, key=lambda shot: (shot.moment, shot.was_killed))

    def _with_promises(self, shots: list[_Shot]) -> Iterator[tuple[_Shot, Promises]]:
        promises = Promises()
        heard = 0
        for shot in shots:
            for operation in self.operations[heard : shot.moment + 1]:
                if isinstance(operation, Told):
                    promises.hear(operation.what)
            heard = max(heard, shot.moment + 1)
            yield shot, promises


def _empty(directory: str) -> None:
    """Remove everything below a directory; shutil.rmtree takes three times as long."""
    with os.scandir(directory) as entries:
        found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_directory in found:
        if is_directory:
            _empty(path)
            os.rmdir(path)
        else:
            os.unlink(path)


def enumerate_images(
    begin: dict[str, bytes | None], operations: list[Operation], camera: Camera
) -> Images:
    """Every distinct image that a crash at any point of a recording allows."""
    model = DiskModel()
    model.load(begin)
    found = Images({}, {})
    newest: Place | None = None
    for moment, operation in enumerate(operations):
        if isinstance(operation, Sync) and not operation.has_failed:
            # Just before it everything was pending; the moment before has shown that.
            newest = None
        model.apply(operation)
        if isinstance(operation, Write):
            newest = operation.node, (operation.at + len(operation.content) - 1) // PAGE_BYTES
        for image in camera.images_at(model, newest):
            found.cut[image] = moment
        found.killed[camera.killed(model)] = moment
    return found


def explored(name: str, *, seed: int, state_max: int, violations_max: int = 1) -> Explored:
    """Record one workload and recover from ``state_max`` states, on a loop of its own."""

    async def explore(found: Exploration) -> Explored:
        return await found.explore(state_max, violations_max=violations_max)

    return asyncio.run(_explored(name, seed, explore))


def explored_recoveries(name: str, *, seed: int, state_max: int) -> Explored:
    """The same with crashes inside the recovery."""
    return asyncio.run(_explored(name, seed, lambda found: found.explore_recoveries(state_max)))


async def _explored(
    name: str, seed: int, explore: Callable[[Exploration], Awaitable[Explored]]
) -> Explored:
    exploration = Exploration(name, seed=seed)
    # Two lines of log for each of thousands of recoveries would bury what matters.
    logging.disable(logging.ERROR)
    try:
        await exploration.record()
        return await explore(exploration)
    finally:
        logging.disable(logging.NOTSET)
        exploration.close()
