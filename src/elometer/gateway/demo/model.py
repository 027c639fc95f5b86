"""The make-believe model: finds the task in a conversation and replies as the seed says."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from hashlib import blake2b

from elometer.gateway.demo.draws import uniforms
from elometer.gateway.demo.protocols.conversation import Conversation, Reply
from elometer.gateway.demo.speech import answer
from elometer.gateway.demo.tasks import Task, continuous_tasks, short_tasks, unknown_task
from elometer.gateway.demo.tokenizer import pieces, prompt_tokens

# So many tasks of each kind are known by their prompts; experiments of the demo hold no more.
KNOWN_TASKS = 200
CACHED_REPLIES = 10_000
REMEMBERED_BODIES = 100_000


class DemoModel:
    """Replies and latencies as pure functions of (experiment seed, conversation, sample seed)."""

    def __init__(self, seed: int, *, latency: tuple[float, float], cached_replies: bool) -> None:
        self._seed = seed
        self._lowest, self._highest = latency
        self._tasks: dict[str, Task] | None = None
        self._cache: OrderedDict[tuple[str, ...], Reply] | None = OrderedDict() if cached_replies else None

    def reply(self, conversation: Conversation, sample_seed: int) -> Reply:
        """The reply, cut at `max_tokens` where it is longer; a cache repeats an earlier one."""
        if self._cache is None:
            return self._reply(conversation, sample_seed)
        place = (conversation.model, *(text for _role, text in conversation.turns))
        kept = self._cache.get(place)
        if kept is None:
            kept = self._cache[place] = self._reply(conversation, sample_seed)
            if len(self._cache) > CACHED_REPLIES:
                self._cache.popitem(last=False)
        return replace(kept, conversation=conversation)

    def latency(self, sample_seed: int) -> float:
        """Seconds from the request to the last byte, uniform between the bounds."""
        draw = next(uniforms("latency", self._seed, sample_seed))
        return self._lowest + (self._highest - self._lowest) * draw

    def _reply(self, conversation: Conversation, sample_seed: int) -> Reply:
        tokens = pieces(answer(self._task(conversation), sample_seed))
        limit = conversation.max_tokens
        cut = limit is not None and limit < len(tokens)
        return Reply(
            conversation=conversation,
            pieces=tuple(tokens[:limit] if cut else tokens),
            prompt_tokens=prompt_tokens(text for _role, text in conversation.turns),
            cut=cut,
        )

    def _task(self, conversation: Conversation) -> Task:
        """The task whose prompt is the latest user turn that is known; else a stand-in for the last turn."""
        if self._tasks is None:
            known: list[Task] = [*short_tasks(self._seed, KNOWN_TASKS)]
            known += continuous_tasks(self._seed, KNOWN_TASKS)
            self._tasks = {task.prompt: task for task in known}
        asked = [text.strip() for role, text in conversation.turns if role == "user"]
        for text in reversed(asked):
            if text in self._tasks:
                return self._tasks[text]
        return unknown_task(self._seed, asked[-1] if asked else "")


class UnnamedSeeds:
    """Seeds of samples whose requests name none: functions of the body and of how often it was served.

    A model with a temperature answers equal requests differently; without the count, k samples over a
    protocol that takes no seed would be one sample.
    """

    def __init__(self) -> None:
        self._served: OrderedDict[bytes, int] = OrderedDict()

    def seed(self, body: bytes) -> int:
        """The seed of the next answer to this body."""
        served = self._served.get(_digest(body), 0)
        return int.from_bytes(_digest(body, served), "big")

    def served(self, body: bytes) -> None:
        """Count an answer to this body; the longest unseen body is forgotten first."""
        digest = _digest(body)
        self._served[digest] = self._served.pop(digest, 0) + 1
        if len(self._served) > REMEMBERED_BODIES:
            self._served.popitem(last=False)


def _digest(body: bytes, served: int = 0) -> bytes:
    return blake2b(body, digest_size=7, person=b"elometer-demo", salt=served.to_bytes(16, "big")).digest()
