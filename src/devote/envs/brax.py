"""Tasks of Brax and MuJoCo Playground, which keep everything in one state.

Their own wrappers restore a cached first state at the end of an episode, leave `info` as it was and
lose the last observation; here the loop resets truly and keeps the true successor.
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

from devote.core.errors import UserError, not_among
from devote.core.settings import Whole
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
    episode_length: Whole = 1000
    """Steps until the time limit."""
    rewards: bool = True
    """Whether the task's rewards are seen; without them exploration is for its own sake."""


@dataclass(frozen=True)
class PlaygroundSettings(CoverageSettings):
    """A task of MuJoCo Playground."""

    id: str = "CartpoleSwingup"
    """Its name in Playground."""
    impl: str = "jax"
    """The physics: jax anywhere, warp on NVIDIA cards."""
    episode_length: Whole = 0
    """Steps until the time limit; 0 for the task's own."""
    rewards: bool = True
    """Whether the task's rewards are seen; without them exploration is for its own sake."""
    download_models: bool = False
    """Whether robot models that a task needs and that are missing may be fetched from GitHub."""


class Stateful(Protocol):
    """What Brax and Playground call an environment."""

    action_size: int

    def reset(self, rng: Any) -> Any: ...

    def step(self, state: Any, action: Any) -> Any: ...

    def render(self, trajectory: Any) -> Sequence[np.ndarray]: ...


NOTHING = CoverageSettings()


@dataclass(frozen=True)
class StatefulTask:
    """One such environment, as the compiled loop wants it."""

    name: str
    env: Stateful
    episode_length: int
    rewards: bool = True
    in_brax: bool = False
    counted: CoverageSettings = NOTHING
    """Says what coverage is counted over."""

    @cached_property
    def spec(self) -> EnvSpec:
        """Sizes from the shape of a first state."""
        start = self._start
        return EnvSpec(
            name=self.name,
            observation=_unbounded(start),
            action=Box(self.env.action_size),
            episode_length=self.episode_length,
            grid=None if self.coverage is None else self.coverage.grid,
            terms=tuple(sorted(name for name in start.metrics if name.startswith("reward"))),
        )

    @cached_property
    def coverage(self) -> Coverage:
        """Bins over entries of the observation, if a user has chosen any."""
        return coverage_of(_unbounded(self._start), self.counted)

    @cached_property
    def _start(self) -> Any:
        """The shape of a first state."""
        return jax.eval_shape(self.env.reset, jax.random.key(0))

    def reset(self, key: PRNGKeyArray) -> Any:
        """A first state, with fresh `info` and all."""
        return jax.tree.map(lambda x: _typed(x, jnp.asarray(x).dtype), self.env.reset(key))

    def observe(self, world: Any) -> Array:
        """The observation, or the part of it that is meant for the policy."""
        return _vector(world.obs).reshape(-1).astype(jnp.float32)

    def step(self, world: Any, action: Array, key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """The next state; these tasks keep their own generator in it.

        A state that blew up, which many tasks call done, is a termination where we stood: a NaN
        in the replay would poison learning even under a discount of 0.
        """
        after = self.env.step(jax.tree.map(lambda x: x, world), action)  # some write into it
        after = jax.tree.map(lambda new, old: _typed(new, old.dtype), after, world)
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
        """What the library itself draws; Brax asks for the physics alone, Playground for all."""
        physics = [world.pipeline_state for world in worlds] if self.in_brax else list(worlds)
        return list(self.env.render(physics))


def brax(settings: BraxSettings) -> StatefulTask:
    """A task of Brax by name."""
    try:
        from brax import envs
    except ModuleNotFoundError as error:
        raise UserError("Brax", error, "install devote[brax]") from error
    known = sorted(envs._envs)  # the registry has no public listing
    if settings.id not in known:
        raise not_among("the task", settings.id, known)
    with _refusing(f"a task that Brax can build with backend {settings.backend}", "--backend"):
        env = envs.get_environment(settings.id, backend=settings.backend)
    length, rewards = settings.episode_length, settings.rewards
    return StatefulTask(settings.id, env, length, rewards, in_brax=True, counted=settings)


def playground(settings: PlaygroundSettings) -> StatefulTask:
    """A task of MuJoCo Playground by name."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it reports missing optional backends
            from mujoco_playground import dm_control_suite, registry
    except ModuleNotFoundError as error:
        raise UserError("MuJoCo Playground", error, "install devote[playground]") from error
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
    """What a library cannot build, in our words and its own."""
    try:
        yield
    except Exception as error:
        raise UserError(
            expected, f"{type(error).__name__}: {error}", f"change {setting}"
        ) from error


def _require_models(name: str) -> None:
    """Refuse what would make Playground clone a collection of robots from the internet."""
    from mujoco_playground._src import mjx_env

    if not mjx_env.MENAGERIE_PATH.exists():
        fix = "put MuJoCo Menagerie there, or let it be fetched: --download-models"
        raise UserError(f"the models of {name} in {mjx_env.MENAGERIE_PATH}", "none", fix)


def _typed(value: Any, dtype: Any) -> Array:
    """A strongly typed array: what a loop carries must not change type, and these tasks do."""
    return jnp.asarray(value, dtype)


def _unbounded(start: Any) -> Vector:
    """Observations like that of a first state; nothing is known of the range of their entries."""
    size = math.prod(_vector(start.obs).shape)
    return Vector((-math.inf,) * size, (math.inf,) * size, own_units=True)


def _vector(obs: Any) -> Any:
    """The policy's part of an observation that may be a dictionary."""
    return obs["state"] if isinstance(obs, dict) else obs
