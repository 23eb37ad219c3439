"""Acting in environments on the host: decisions, steps, and a close look at what comes back."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard
from devote.core.types import EnvSpec, HostEnv, HostStep
from devote.core.worker import Worker
from devote.loops.host import Rows, blank_rows
from devote.loops.host_compiled import Leaves

T = TypeVar("T")


class Acting(NamedTuple):
    """What behaviour carries from one vector step to the next; the first axis is the seed."""

    memory: Any
    obs: np.ndarray
    first: np.ndarray


class Seeds:
    """The environments of every seed, asked in the worker's thread."""

    def __init__(self, envs: tuple[HostEnv, ...], names: list[str], worker: Worker) -> None:
        self.envs, self.names, self.worker = envs, names, worker
        self.spec: EnvSpec = envs[0].spec
        self.guard = Guard(self.spec)
        self.who = [
            f"one of the {env.num_envs} environments {env.spec.name} of {name}"
            for env, name in zip(envs, names, strict=True)
        ]

    def reset(self, keys: tuple[PRNGKeyArray, ...]) -> np.ndarray:
        """New episodes everywhere; their first observations."""
        fresh = []
        for i, key in enumerate(keys):
            env = self.envs[i]
            obs = self.ask(i, "reset", None, partial(env.reset, key))
            self.guard.obs(obs, env.num_envs, f"reset of {self.names[i]}")
            fresh.append(obs)
        return np.stack(fresh)

    def step(self, i: int, action: np.ndarray, key: PRNGKeyArray, at: int) -> HostStep:
        """A step that may be learned from."""
        when = f"vector step {at:,}"
        step = self.ask(i, when, action, partial(self.envs[i].step, action, key))
        self.guard.step(step, action, f"{when} of {self.names[i]}")
        return step

    def bins(self, i: int, obs: np.ndarray) -> np.ndarray:
        """Coverage bins of any number of observations."""
        return self.ask(i, "bin_of", None, partial(self.envs[i].bin_of, obs))

    def save(self) -> tuple[dict[str, np.ndarray], ...]:
        """What each seed's environments tell of themselves; nothing at all if one cannot."""
        found = [self.ask(i, "save", None, env.save) for i, env in enumerate(self.envs)]
        return tuple(saved for saved in found if saved is not None) if None not in found else ()

    def restore(self, saved: tuple[dict[str, np.ndarray], ...]) -> None:
        """Go on from what `save` gave."""
        for i, (env, part) in enumerate(zip(self.envs, saved, strict=True)):
            self.ask(i, "restore", None, partial(env.restore, part))

    def close(self) -> None:
        """Let all environments go."""
        for i, env in enumerate(self.envs):
            self.ask(i, "close", None, env.close)

    def ask(self, i: int, what: str, action: np.ndarray | None, call: Callable[[], T]) -> T:
        """The answer, or an error that says who failed, when, after what, and in which words."""
        try:
            with self.worker.asking(self.who[i], what, action):
                return call()
        except (EnvironmentFailedError, UserError):
            raise
        except Exception as error:
            words = traceback.format_exc()
            raise EnvironmentFailedError.of(self.who[i], what, action, words) from error


class Collector:
    """Plays vector steps with a given agent; `act` decides for all seeds at once."""

    def __init__(self, seeds: Seeds, act: Any) -> None:
        self.seeds, self.act = seeds, act
        self.single = len(seeds.envs) == 1

    def compile(self, agent: Leaves, acting: Acting, key: PRNGKeyArray) -> None:
        """Compile decisions."""
        obs, first = self._outer((acting.obs, acting.first))
        self.act.lower(agent, acting.memory, obs, first, key).compile()

    def blank(self, steps: int) -> Rows:
        """What `play` will give, without content."""
        return self._outer(self._room(steps))

    def _room(self, steps: int) -> Rows:
        envs = self.seeds.envs
        return blank_rows(self.seeds.spec, (len(envs), steps, envs[0].num_envs))

    def play(
        self, agent: Leaves, acting: Acting, key: PRNGKeyArray, steps: int, at: int
    ) -> tuple[Rows, Acting, PRNGKeyArray]:
        """`steps` vector steps, the first of which has number `at`."""
        rows = self._room(steps)
        for t in range(steps):
            obs, first = self._outer((acting.obs, acting.first))
            action, memory, key, env_keys = self.act(agent, acting.memory, obs, first, key)
            actions = np.asarray(action)[None] if self.single else np.asarray(action)
            after = [
                self.seeds.step(i, actions[i], env_keys[i], at + t) for i in range(len(actions))
            ]
            acting = self._write(rows, t, acting, actions, after)._replace(memory=memory)
        self._count(rows)
        return self._outer(rows), acting, key

    def _write(
        self, rows: Rows, t: int, acting: Acting, actions: np.ndarray, after: list[HostStep]
    ) -> Acting:
        """Copies a vector step into its row; where the next one begins."""
        row: Any = rows.transition
        row.obs[:, t], row.first[:, t], row.action[:, t] = acting.obs, acting.first, actions
        for i, step in enumerate(after):
            row.reward[i, t], row.next_obs[i, t] = step.reward, step.next_obs
            row.discount[i, t] = ~step.terminated
            rows.ended[i, t] = step.terminated | step.truncated
            rows.valid[i, t], rows.success[i, t] = step.valid, step.success
            for name, values in step.terms.items():
                rows.terms[name][i, t] = values
        first = np.asarray(rows.ended[:, t] | (acting.first & ~rows.valid[:, t]))
        return acting._replace(obs=np.stack([step.obs for step in after]), first=first)

    def _count(self, rows: Rows) -> None:
        """Bins of successors, and of the starts of episodes once somebody has acted there."""
        if self.seeds.spec.grid is None:
            return
        row: Any = rows.transition
        for i in range(len(self.seeds.envs)):
            moved, begun = rows.valid[i], row.first[i] & rows.valid[i]
            rows.bins[i][moved] = self.seeds.bins(i, row.next_obs[i][moved])
            if begun.any():
                rows.starts[i][begun] = self.seeds.bins(i, row.obs[i][begun])

    def _outer(self, tree: T) -> T:
        """Without the seed axis where there is one seed only."""
        return jax.tree.map(lambda x: x[0], tree) if self.single else tree
