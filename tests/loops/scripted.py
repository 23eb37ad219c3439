"""An environment whose observation tells the time, and an agent that only counts."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.types import Box, EnvSpec, Grid, Outcome, Vector

SUCCESS, LIMIT = 3, 5


class Counting(NamedTuple):
    count: Any
    lucky: Any


class Counter:
    """Counts its steps. Half the episodes succeed: from step 3 on they pay 1 and are over; the
    others pay nothing until the time limit of 5. What is seen is the count, and which half. A
    success is said one step before the end, so that it must be kept until then."""

    spec = EnvSpec(
        name="counter",
        observation=Vector((0.0, 0.0), (float(LIMIT), 1.0)),
        action=Box(1),
        episode_length=LIMIT,
        grid=Grid((LIMIT + 1,), np.ones(LIMIT + 1, bool), np.ones(LIMIT + 1, bool)),
        terms=("prize", "age"),
        says_success=True,
    )

    def reset(self, key: jax.Array) -> Counting:
        return Counting(jnp.int32(0), jax.random.bernoulli(key))

    def observe(self, world: Counting) -> jax.Array:
        return jnp.stack([world.count, world.lucky]).astype(jnp.float32)

    def step(self, world: Counting, action: Any, key: Any) -> tuple[Counting, Outcome]:
        after = Counting(world.count + 1, world.lucky)
        success = world.lucky & (after.count >= SUCCESS)
        reward = success.astype(jnp.float32)
        terms = {"prize": reward, "age": after.count.astype(jnp.float32)}
        return after, Outcome(reward, success, world.lucky & (after.count == SUCCESS - 1), terms)

    def bin_of(self, world: Counting) -> jax.Array:
        return jnp.where(world.count == 1, -1, world.count)  # bin 1 counts nowhere


@dataclass(frozen=True)
class Scripted:
    """Acts at random; its state is one weight and how often it was updated."""

    spec: EnvSpec = field(default_factory=lambda: Counter.spec)
    sequence_length: int = 1

    def init(self, key: jax.Array) -> Any:
        return {"weight": jax.random.normal(key), "updates": jnp.int32(0)}

    def remember(self, num_envs: int) -> Any:
        return jnp.zeros(num_envs, jnp.int32)

    def act(self, state: Any, memory: Any, obs: Any, first: Any, key: Any) -> tuple[Any, Any]:
        shape = (obs.shape[0], self.spec.action.size)
        return jax.random.uniform(key, shape, minval=-1), memory + 1

    def exploit(self, state: Any, obs: Any, key: Any = None) -> Any:
        return jnp.zeros((obs.shape[0], self.spec.action.size))

    def update(self, state: Any, batch: Any, key: Any) -> tuple[Any, Any]:
        return state | {"updates": state["updates"] + 1}, {"seen": batch.reward.mean()}

    def refresh(self, state: Any, key: Any) -> Any:
        return state

    def diagnose(self, state: Any, batch: Any) -> Any:
        return {}

    def maps(self, state: Any, obs: Any) -> Any:
        return {}
