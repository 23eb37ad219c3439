"""Complete episodes with the exploitation actor, in any environment."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from devote.core.errors import UserError
from devote.core.guard import Guard
from devote.core.types import Agent, Env, HostEnv, HostStep
from devote.loops.evaluate import evaluate as evaluate_in_jax

Exploit = Callable[[Any, np.ndarray], Any]
PATIENCE = 20
"""Episode lengths that a batch may take for each episode asked of it; a vector environment does not
always tell the true one."""


def evaluate(
    agent: Agent, env: Env | HostEnv, state: Any, exploit: Exploit, episodes: int, seed: int
) -> dict[str, float]:
    """Mean return and more over at least so many complete episodes, as many in each environment."""
    key = jax.random.fold_in(jax.random.key(seed), 1)
    if not isinstance(env, HostEnv):
        play = jax.jit(lambda state: evaluate_in_jax(agent, env, state, episodes, key))
        found = {name.removeprefix("eval/"): float(value) for name, value in play(state).items()}
        return found | {"episodes": float(episodes)}
    each = -(-episodes // env.num_envs)
    ended = _play(env, state, exploit, each, key)
    reward = np.array([sums.reward for sums in ended])
    found = {
        "mean_reward": float(reward.mean()),
        "std_reward": float(reward.std()),
        "mean_ep_length": float(np.mean([sums.length for sums in ended])),
        "episodes": float(len(ended)),
    }
    for name in env.spec.terms:
        found[f"term/{name}"] = float(np.mean([sums.terms[name] for sums in ended]))
    if env.spec.says_success:
        found["success_rate"] = float(np.mean([sums.success for sums in ended]))
    return found


@dataclass
class Sums:
    """Of one episode so far."""

    reward: float = 0.0
    length: int = 0
    success: bool = False
    terms: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, step: HostStep, env: int) -> None:
        """One more step of an environment, if anything happened in it."""
        if not step.valid[env]:
            return
        self.reward += float(step.reward[env])
        self.length += 1
        self.success |= bool(step.success[env])
        for name, values in step.terms.items():
            self.terms[name] += float(values[env])


def _play(env: HostEnv, state: Any, exploit: Exploit, each: int, key: jax.Array) -> list[Sums]:
    """The sums of the first `each` episodes of every environment."""
    obs, guard = env.reset(key), Guard(env.spec)
    guard.obs(obs, env.num_envs, "reset of an evaluation")
    begun = [Sums() for _ in range(env.num_envs)]
    ended: list[list[Sums]] = [[] for _ in begun]
    for t in range(PATIENCE * each * env.spec.episode_length):
        action = np.asarray(exploit(state, obs))
        step = env.step(action, jax.random.fold_in(key, t))
        guard.step(step, action, f"vector step {t:,} of an evaluation")
        over = step.terminated | step.truncated
        for i, sums in enumerate(begun):
            sums.add(step, i)
            if over[i]:
                ended[i] += [sums] if len(ended[i]) < each else []
                begun[i] = Sums()
        if all(len(episodes) == each for episodes in ended):
            return [sums for episodes in ended for sums in episodes]
        obs = step.obs
    raise UserError(
        f"episodes of {env.spec.name} to end within {env.spec.episode_length} steps",
        "episodes that go on and on",
        "end them, or set a time limit",
    )
