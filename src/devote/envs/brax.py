"""Tasks of Brax and MuJoCo Playground.

Their own auto-reset wrappers restore a cached first state, keep the old `info` and lose the last
observation of an episode. They are not used: our loop resets, and stores the true successor.
"""

import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from devote.core.errors import UserError, extra, not_among
from devote.core.settings import EpisodeLength, EpisodeLimit
from devote.core.trees import where
from devote.core.types import Box, EnvSpec, Outcome, Vector
from devote.envs.bins import Coverage, CoverageSettings, EntryBins, coverage_of


@dataclass(frozen=True)
class BraxSettings(CoverageSettings):
    """A task of Brax."""

    id: str = "ant"
    """Its name in Brax."""
    backend: str = "mjx"
    """The physics: mjx, generalized, positional or spring."""
    episode_length: EpisodeLength = 1000
    """Steps until the time limit."""
    rewards: bool = True
    """The task's rewards, or none at all."""


@dataclass(frozen=True)
class PlaygroundSettings(CoverageSettings):
    """A task of MuJoCo Playground."""

    id: str = "CartpoleSwingup"
    """Its name in Playground."""
    impl: str = "jax"
    """The physics: jax anywhere, warp on NVIDIA cards."""
    episode_length: EpisodeLimit = 0
    """Steps until the time limit; 0 for the task's own."""
    rewards: bool = True
    """The task's rewards, or none at all."""
    download_models: bool = False
    """Whether missing robot models may be downloaded from GitHub."""


class Stateful(Protocol):
    """An environment of Brax or Playground."""

    action_size: int

    def reset(self, rng: Any) -> Any: ...

    def step(self, state: Any, action: Any) -> Any: ...

    def render(self, trajectory: Any) -> Sequence[np.ndarray]: ...


@dataclass(frozen=True)
class StatefulTask:
    """An environment of Brax or Playground as an `Env`."""

    name: str
    env: Stateful
    episode_length: int
    rewards: bool = True
    in_brax: bool = False
    counted: CoverageSettings = CoverageSettings()  # noqa: RUF009  frozen

    @cached_property
    def spec(self) -> EnvSpec:
        start = self._start
        return EnvSpec(
            name=self.name,
            observation=self._space,
            action=Box(self.env.action_size),
            episode_length=self.episode_length,
            grid=None if self.coverage is None else self.coverage.grid,
            terms=tuple(sorted(name for name in start.metrics if name.startswith("reward"))),
        )

    @cached_property
    def coverage(self) -> Coverage:
        """Bins over the entries of the observation that a user chose."""
        return coverage_of(self._space, self.counted)

    @cached_property
    def _start(self) -> Any:
        """Shapes and types of a first state."""
        return jax.eval_shape(self.env.reset, jax.random.key(0))

    @cached_property
    def _space(self) -> Vector:
        """Observations whose bounds are not known."""
        size = math.prod(_vector(self._start.obs).shape)
        return Vector((-math.inf,) * size, (math.inf,) * size, own_units=True)

    def reset(self, key: PRNGKeyArray) -> Any:
        """A first state, `info` included."""
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), self.env.reset(key))

    def observe(self, world: Any) -> Array:
        """The observation, or its part for the policy."""
        return _vector(world.obs).reshape(-1).astype(jnp.float32)

    def step(self, world: Any, action: Array, key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """The next state, of the types of the last one, as loops need it.

        The task's random generator is part of the state. A simulation that blew up terminates in
        the last sound state: a NaN in the replay would spoil learning even with a discount of 0.
        """
        after = self.env.step(jax.tree.map(lambda x: x, world), action)  # some tasks write into it
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, world)
        sound = jnp.isfinite(self.observe(after)).all() & jnp.isfinite(after.reward).all()
        return where(sound, after, world), Outcome(
            reward=jnp.where(sound, jnp.asarray(after.reward, jnp.float32), 0.0) * self.rewards,
            terminated=after.done.astype(bool) | ~sound,
            terms={name: jnp.where(sound, after.metrics[name], 0.0) for name in self.spec.terms},
        )

    def bin_of(self, world: Any) -> Int[Array, ""]:
        """The coverage bin of the observation; -1 where nothing is counted."""
        if not isinstance(self.coverage, EntryBins):
            return jnp.int32(-1)
        return self.coverage.bin_of(self.observe(world)[None], jnp)[0]

    def pictures(self, worlds: Sequence[Any]) -> list[np.ndarray]:
        """What the library renders: Brax takes the physics state, Playground the whole one."""
        physics = [world.pipeline_state for world in worlds] if self.in_brax else list(worlds)
        return list(self.env.render(physics))


def brax(settings: BraxSettings) -> StatefulTask:
    """A task of Brax by name."""
    with extra("brax"):
        from brax import envs
    known = sorted(envs._envs)  # the registry has no public listing
    if settings.id not in known:
        raise not_among("the task", settings.id, known)
    with _refusing(f"a task that Brax can build with backend {settings.backend}", "--backend"):
        env = envs.get_environment(settings.id, backend=settings.backend)
    length, rewards = settings.episode_length, settings.rewards
    return StatefulTask(settings.id, env, length, rewards, in_brax=True, counted=settings)


def playground(settings: PlaygroundSettings) -> StatefulTask:
    """A task of MuJoCo Playground by name."""
    # it prints missing optional backends
    with extra("playground"), contextlib.redirect_stdout(io.StringIO()):
        from mujoco_playground import dm_control_suite, registry
    if settings.id not in registry.ALL_ENVS:
        raise not_among("the task", settings.id, list(registry.ALL_ENVS))
    if settings.id not in dm_control_suite.ALL_ENVS and not settings.download_models:
        _require_models(settings.id)
    config = registry.get_default_config(settings.id)
    with _refusing("a task that this Playground and this MuJoCo can build together", "--id"):
        env = registry.load(settings.id, config=config, config_overrides={"impl": settings.impl})
    length = settings.episode_length or int(config.episode_length)
    return StatefulTask(settings.id, env, length, settings.rewards, counted=settings)


@contextlib.contextmanager
def _refusing(expected: str, setting: str) -> Iterator[None]:
    """Turn what a library raises while it builds a task into a `UserError`."""
    try:
        yield
    except Exception as error:
        raise UserError(
            expected, f"{type(error).__name__}: {error}", f"change {setting}"
        ) from error


def _require_models(name: str) -> None:
    """Refuse tasks for which Playground would download a collection of robot models."""
    from mujoco_playground._src import mjx_env

    if not mjx_env.MENAGERIE_PATH.exists():
        fix = "put MuJoCo Menagerie there, or have it downloaded: --download-models"
        raise UserError(f"the models of {name} in {mjx_env.MENAGERIE_PATH}", "none", fix)


def _vector(obs: Any) -> Any:
    """The policy's part of an observation that may be a dictionary."""
    return obs["state"] if isinstance(obs, dict) else obs
