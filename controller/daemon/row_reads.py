"""Rows that the servers of jobs are asked to read by drains, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from controller.errors import NotKnown, NotNow
from controller.jobapi import job_pb2

ANSWER_S = 15.0
"""How long a server may take: a switch that is silent is asked several times."""
MAX_FAILURE = 300
"""Characters of why it could not read, that are handed on."""


class RowReads:
    """Hands questions to the servers that follow, and waits for what they tell."""

    def __init__(self) -> None:
        self._followers: dict[int, list[asyncio.Queue[job_pb2.ReadRows]]] = {}
        self._open: dict[int, tuple[int, asyncio.Future[job_pb2.TellRowsRequest]]] = {}
        self._last = 0

    async def follow(self, job: int) -> AsyncIterator[job_pb2.ReadRows]:
        """The questions to the server of a job, as long as it listens."""
        with self._followed(job) as questions:
            while True:
                yield await questions.get()

    @contextmanager
    def _followed(self, job: int) -> Iterator[asyncio.Queue[job_pb2.ReadRows]]:
        questions: asyncio.Queue[job_pb2.ReadRows] = asyncio.Queue()
        followers = self._followers.setdefault(job, [])
        followers.append(questions)
        try:
            yield questions
        finally:
            followers.remove(questions)
            if not followers:
                self._followers.pop(job, None)

    async def ask(self, question: job_pb2.ReadRows) -> job_pb2.TellRowsRequest:
        """Ask the server of a job that follows since last; returns its answer.

        Raises:
            NotNow: no server of the job listens, it does not answer, or its switches do not
                answer it.
        """
        followers = self._followers.get(question.job)
        if not followers:
            raise NotNow(
                f"no server of job {question.job} is connected, and drains are answered to it "
                "alone: start it, or read registers"
            )
        self._last += 1
        question.number = self._last
        answer: asyncio.Future[job_pb2.TellRowsRequest] = asyncio.get_running_loop().create_future()
        self._open[question.number] = question.job, answer
        followers[-1].put_nowait(question)
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await answer
        except TimeoutError:
            raise NotNow(
                f"the server of job {question.job} did not answer within {ANSWER_S:g} s"
            ) from None
        finally:
            del self._open[question.number]
        if found.failure:
            raise NotNow(f"the server of job {question.job}: {found.failure[:MAX_FAILURE]}")
        return found

    def tell(self, answer: job_pb2.TellRowsRequest) -> None:
        """Take an answer; `NotKnown` if nobody waits for it any more."""
        job, waiting = self._open.get(answer.number, (0, None))
        if waiting is None or job != answer.job or waiting.done():
            raise NotKnown(f"nobody waits for answer {answer.number} of job {answer.job}")
        waiting.set_result(answer)
