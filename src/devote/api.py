"""The Python face: `Devote(env).learn(steps).predict(obs)`."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from devote.build import EnvSource, build_agent, build_program, env_source, spaces_seen
from devote.core.cache import use_compilation_cache
from devote.core.errors import UserError
from devote.core.guard import Guard
from devote.core.settings import defaults, fit, whole_number
from devote.core.types import Agent, Env, HostEnv
from devote.core.worker import Worker
from devote.envs.spaces import Actions, Observations
from devote.loops.evaluate import evaluate
from devote.loops.host import HostEvaluation
from devote.loops.loop import QUICK_COMPILE, Program, run_keys
from devote.loops.progress import Reporter
from devote.loops.run_dir import (
    MAY_CHANGE,
    SETTINGS,
    DirectoryStore,
    MemoryStore,
    Row,
    RunDirectory,
    Store,
    require_settings,
)
from devote.loops.signals import StopRequest
from devote.loops.train import Training
from devote.presets import PRESETS
from devote.run import Run
from devote.saved import SavedModel, read_model, read_model_state, saved_agent, write_model

PATIENCE = 20
"""Episode lengths that a batch may take for each episode asked of it; a vector environment does not
always tell the true one."""
Callback = Callable[[Row], bool | None]
"""Told the metrics of every chunk; False ends the learning."""


class Model:
    """An agent with its environment: learns, predicts, evaluates, is saved and loaded.

    `env` is a task of ours ("spiral"), a Gymnasium id, environment, factory or vector environment.
    Any setting of the task, the agent or the schedule can be given by its name. With `directory`
    everything is kept there, and the same lines go on where they stopped.
    """

    agent_name: ClassVar[str]

    def __init__(
        self,
        env: Any,
        seed: int = 0,
        preset: str = "desk",
        directory: str | Path | None = None,
        **settings: Any,
    ) -> None:
        if preset not in PRESETS:
            raise UserError(f"a preset among {', '.join(PRESETS)}", repr(preset), "choose one")
        source = env_source(env)
        base = PRESETS[preset](source.recipe, self.agent_name)
        run = replace(source.adapted(base), seed=fit(int, "seed", seed))
        run = source.with_settings(run, settings)
        run.check()
        self._set(run, source, None if directory is None else Path(directory))

    def _set(self, run: Run, source: EnvSource | None, directory: Path | None) -> None:
        if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
            use_compilation_cache()
        self.run, self.source, self.directory = run, source, directory
        self._asked, self._draws = 0, 0
        self._training: Training | None = None
        self._loaded = False

    @cached_property
    def env(self) -> Env | HostEnv:
        """The environments, built when they are first needed."""
        return self._source().make(self.run, self.run.loop.num_envs)

    @cached_property
    def task(self) -> SavedModel:
        """What the agent knows of its task, as a saved model tells it."""
        spaces = spaces_seen(self.env)
        return SavedModel(self._source().recipe, self.run, self.env.spec, *spaces, step=0)

    @cached_property
    def agent(self) -> Agent:
        """The learner as pure functions."""
        return build_agent(self.run.agent_name, self.run.agent, self.task.spec)

    @cached_property
    def program(self) -> Program:
        """The loop around agent and environments."""
        make = partial(self._source().make, self.run)
        return build_program(self.run, make, self.env, self.agent)

    def _source(self) -> EnvSource:
        if self.source is None:
            fix = f"give one: {type(self).__name__}.load(path, env=...)"
            raise UserError("an environment", "a model that was loaded without one", fix)
        return self.source

    @property
    def steps(self) -> int:
        """Environment steps taken so far."""
        return self._before[0] if self._training is None else self.task.step + self._training.step

    def learn(
        self, steps: int, progress_bar: bool = True, callback: Callback | None = None
    ) -> Self:
        """Learn for so many more environment steps, in whole chunks of `log_interval`."""
        self._asked += whole_number("steps", steps)
        reporter = Reporter(self._asked, silent=not progress_bar)
        owner = nullcontext() if self.directory is None else RunDirectory(self.directory)
        with owner, StopRequest() as stop:
            training = self._begun(reporter)
            told = None if callback is None else lambda rows: callback(rows[0])
            training.run(self._asked, stop, told)
        if training.step < self._asked:
            self._asked = training.step
        if stop.requested:
            raise KeyboardInterrupt(stop.signal_name)
        if int(training.state.clock.updates) == 0:
            message = (
                f"nothing is learned yet: the first {training.step:,} steps only fill the replay; "
                "learn for more, or lower learning_starts"
            )
            warnings.warn(message, stacklevel=2)
        return self

    def _begun(self, reporter: Reporter) -> Training:
        """The training, started or continued the first time."""
        if self._training is None:
            store: Store = MemoryStore()
            if self.directory is not None:
                store = DirectoryStore(self.directory, self._identity(), defaults(self.run))
            training = Training(self.program, reporter, store)
            training.begin(self._before[1] if self._loaded else None)
            self._training = training
        else:
            self._training.store.require_unchanged()
        self._training.reporter = reporter
        return self._training

    @property
    def state(self) -> Any:
        """All that the agent has learned, as one pytree."""
        return self._before[1] if self._training is None else self._training.state.agent

    @cached_property
    def _before(self) -> tuple[int, Any]:
        """Steps and agent before any learning here: as loaded, as in the directory, or fresh."""
        if self.directory is not None and (self.directory / SETTINGS).exists():
            require_settings(self.directory, self._identity(), MAY_CHANGE, defaults(self.run))
            found = saved_agent(self.directory, self.agent)
            if found is not None:
                return found
        agent_key, _, _ = run_keys(jax.random.key(self.run.seed))  # as the training would start
        return 0, jax.jit(self.agent.init, compiler_options=QUICK_COMPILE)(agent_key)

    def _identity(self) -> dict[str, Any]:
        """What a directory must agree with; a task without a name is known by its own."""
        task = {} if self._source().named else {"task": self.task.spec.name}
        return asdict(self.run) | task

    def predict(self, obs: Any, deterministic: bool = True, explore: bool = False) -> np.ndarray:
        """Actions in the environment's own format, for one observation or a batch of them.

        By default the exploitation actor's best guess; not `deterministic`, a draw from it. With
        `explore`, a draw from the behaviour that makes the data: that one is never deterministic.
        """
        flat, single = self._heard(obs)
        self._draws += 1
        key = jax.random.fold_in(jax.random.key(self.run.seed), self._draws)
        if explore:
            action = self._explore(self.state, flat, key)
        else:
            action = self._exploit(self.state, flat, None if deterministic else key)
        said = Actions(self.task.action).to_env(np.asarray(action))
        return said[0] if single else said

    @cached_property
    def _exploit(self) -> Callable[..., Any]:
        return jax.jit(self.agent.exploit)

    @cached_property
    def _explore(self) -> Callable[..., Any]:
        def act(state: Any, obs: Any, key: Any) -> Any:
            memory, first = self.agent.remember(len(obs)), jnp.ones(len(obs), bool)
            return self.agent.act(state, memory, obs, first, key)[0]

        return jax.jit(act)

    def _heard(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Observations as the agent takes them, and whether there was a single one."""
        layout = Observations(self.task.observation)
        count = layout.batch_of(obs)
        flat = layout.flatten_one(obs)[None] if count is None else layout.flatten(obs, count)
        Guard(self.task.spec, bounds=False, more="").obs(flat, len(flat), "predict")
        return flat, count is None

    def evaluate(self, episodes: int = 10) -> dict[str, float]:
        """Complete episodes of the exploitation actor, in fresh environments where possible."""
        episodes = whole_number("episodes", episodes)
        only = self._source().fixed is not None
        env = self.env if only else self._source().make(self.run, min(episodes, 16))
        found = self._evaluate(env, episodes)
        if not only:
            _close(env)
        elif self._training is not None:
            # the episodes that were under way are gone
            self._training.state, _ = self.program.resume(self._training.state)
        return found

    def _evaluate(self, env: Env | HostEnv, episodes: int) -> dict[str, float]:
        key = jax.random.key(self.run.seed)
        if isinstance(env, HostEnv):
            each = -(-episodes // env.num_envs)
            episodes = each * env.num_envs
            worker = Worker(self.run.loop.env_timeout)
            seeds = (self.run.seed,)
            player = HostEvaluation(
                self.agent, lambda _: env, env.num_envs, seeds, worker, each, PATIENCE
            )
            metrics = worker.run(lambda: player.run(self.state, key))
            worker.close()
        else:
            key = jax.random.fold_in(key, 1)
            play = jax.jit(lambda state: evaluate(self.agent, env, state, episodes, key))
            metrics = play(self.state)
        found = {name.removeprefix("eval/"): float(value) for name, value in metrics.items()}
        return found | {"episodes": float(episodes)}

    def save(self, path: str | Path) -> None:
        """Write the agent as safetensors and a table that says what it is."""
        described = replace(self.task, step=self.steps)
        write_model(Path(path), described, self.state)

    @classmethod
    def load(cls, path: str | Path, env: Any = None) -> Self:
        """Read an agent back; without `env`, the environment that it names itself is used."""
        described = read_model(Path(path))
        if described.run.agent_name != cls.agent_name:
            fix = f"load it with the class of {described.run.agent_name}"
            raise UserError(f"a model of {cls.agent_name}", described.run.agent_name, fix)
        model = cls.__new__(cls)
        if env is None:
            model._set(described.run, described.source(), None)
        else:
            source = env_source(env)
            model._set(source.adapted(described.run), source, None)
            described.require_fit(source.recipe, model.env)
        model.task = described
        shape = jax.eval_shape(model.agent.init, jax.random.key(0))
        model._before, model._loaded = (described.step, read_model_state(Path(path), shape)), True
        return model

    def close(self) -> None:
        """Let the environments go, where any were made."""
        if "program" in vars(self):
            self.program.close()
        elif "env" in vars(self):
            _close(self.env)


class Devote(Model):
    """DEVOTE: optimistic exploration with deep epistemic value functions."""

    agent_name = "devote"


class Sac(Model):
    """Soft actor-critic, the backbone and the baseline."""

    agent_name = "sac"


class Rnd(Model):
    """Novelty by random network distillation, in DEVOTE's frame."""

    agent_name = "rnd"


class Thompson(Model):
    """An ensemble of values with priors, one member followed per episode."""

    agent_name = "thompson"


class Sombrl(Model):
    """Optimism towards what an ensemble of models of the world disagrees on."""

    agent_name = "sombrl"


def _close(env: Env | HostEnv) -> None:
    if isinstance(env, HostEnv):
        env.close()
