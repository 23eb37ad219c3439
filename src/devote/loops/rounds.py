"""The rounds of a chunk on the host: played and learned from in turn, or side by side."""

from functools import partial
from typing import Any

from jaxtyping import PRNGKeyArray

from devote.core.worker import Task, Worker
from devote.loops.collect import Acting, Collector
from devote.loops.host import Held, Rows, Tally
from devote.loops.host_compiled import Leaves


class Rounds:
    """Holds, at any instant, the state after the last round that was learned from."""

    def __init__(
        self,
        collector: Collector,
        worker: Worker,
        learn: Any,
        vector_steps: int,
        agent: Leaves,
        acting: Acting,
        held: Held,
        tally: Tally,
    ) -> None:
        self.collector, self.worker, self.learn = collector, worker, learn
        self.vector_steps = vector_steps
        self.agent, self.acting, self.held, self.tally = agent, acting, held, tally
        self.begun = int(held.clock.vector_steps)

    def in_turn(self, number: int) -> None:
        """Each round acts with the agent that all rounds before it have taught."""
        for _ in range(number):
            rows, acting, key = self.worker.wait(self._play(self.acting, self.held.key))
            self.held = self.held._replace(key=key)
            self._learn(rows, acting)

    def side_by_side(self, number: int, key: PRNGKeyArray) -> None:
        """A round is played while the one before it is learned from; none is left open.

        `key` is for acting; its chain ends with the chunk.
        """
        rows, acting, key = self.worker.wait(self._play(self.acting, key))
        for _ in range(number - 1):
            coming = self._play(acting, key)
            self._learn(rows, acting)
            rows, acting, key = self.worker.wait(coming)
        self._learn(rows, acting)

    def _play(self, acting: Acting, key: PRNGKeyArray) -> Task[tuple[Rows, Acting, PRNGKeyArray]]:
        """Begin a round with the agent of now."""
        steps, at = self.vector_steps, self.begun
        self.begun += steps
        return self.worker.submit(partial(self.collector.play, self.agent, acting, key, steps, at))

    def _learn(self, rows: Rows, acting: Acting) -> None:
        self.agent, self.held, self.tally = self.learn(self.agent, self.held, self.tally, rows)
        self.acting = acting
