"""Complete episodes with the exploitation actor, in any environment."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from devote.core import Agent, Env, HostEnv
from devote.core.errors import UserError
from devote.loops.evaluate import evaluate as evaluate_in_jax

Exploit = Callable[[Any, np.ndarray], Any]
PATIENCE = 4
"""Episode lengths that a batch of environments may take for each episode asked of it."""


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
    reward, length, success = (np.array(values, float) for values in zip(*ended, strict=True))
    found = {
        "mean_reward": float(reward.mean()),
        "std_reward": float(reward.std()),
        "mean_ep_length": float(length.mean()),
        "episodes": float(len(ended)),
    }
    return found | ({"success_rate": float(success.mean())} if env.spec.says_success else {})


def _play(
    env: HostEnv, state: Any, exploit: Exploit, each: int, key: jax.Array
) -> list[tuple[float, int, bool]]:
    """Return, length and success of the first `each` episodes of every environment."""
    obs, ended = env.reset(key), [[] for _ in range(env.num_envs)]  # type: ignore[var-annotated]
    reward, length = np.zeros(env.num_envs), np.zeros(env.num_envs, int)
    success = np.zeros(env.num_envs, bool)
    for t in range(PATIENCE * each * env.spec.episode_length):
        step = env.step(np.asarray(exploit(state, obs)), jax.random.fold_in(key, t))
        reward += np.where(step.valid, step.reward, 0.0)
        length += step.valid
        success |= step.valid & step.success
        for i in np.flatnonzero(step.terminated | step.truncated):
            if len(ended[i]) < each:
                ended[i].append((float(reward[i]), int(length[i]), bool(success[i])))
            reward[i], length[i], success[i] = 0, 0, False
        if all(len(episodes) == each for episodes in ended):
            return [episode for episodes in ended for episode in episodes]
        obs = step.obs
    raise UserError(
        f"episodes of {env.spec.name} to end within {env.spec.episode_length} steps",
        "episodes that go on and on",
        "end them, or set time_limit",
    )
