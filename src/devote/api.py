"""The Python API: `Devote(env).learn(steps).predict(obs)`."""

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from devote.build import AGENTS, EnvSource, build_agent, build_program, env_source, spaces_seen
from devote.callbacks import Callbacks, Given
from devote.core.durable import use_compilation_cache
from devote.core.errors import UserError
from devote.core.guard import Guard
from devote.core.settings import defaults, fit, whole_number
from devote.core.types import Agent, Env, HostEnv
from devote.core.worker import Worker
from devote.envs.spaces import Actions, Observations
from devote.loops.episodes import evaluate
from devote.loops.host import HostEvaluation
from devote.loops.loop import QUICK_COMPILE, Program, run_keys
from devote.loops.progress import Reporter
from devote.loops.run_dir import (
    MAY_CHANGE,
    SETTINGS,
    DirectoryStore,
    RunDirectory,
    Store,
    require_settings,
)
from devote.loops.signals import StopRequest
from devote.loops.train import Training
from devote.names import choice
from devote.nets.own import Own
from devote.presets import PRESETS
from devote.run import Run
from devote.saved import (
    SavedModel,
    export_policy,
    read_model,
    read_model_state,
    saved_agent,
    write_model,
)

PATIENCE = 20
"""An evaluation gives up after this many episode lengths per episode: vector environments do not
always know the true one."""


class Model:
    """An agent with its environment: learn, predict, evaluate, save and load.

    `env` is a task of ours ("spiral"), a Gymnasium id, environment, factory or vector environment.
    Settings of the task, the agent and the schedule are keyword arguments. `network`, `prior` and
    `optimiser` may be objects of your own. With `directory` the run is kept there, and the same
    script continues it.
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
        own, settings = own_parts(settings)
        run = source.with_settings(run, settings)
        run.check()
        self._set(run, source, own, None if directory is None else Path(directory))

    def _set(
        self, run: Run, source: EnvSource | None, own: Own | None, directory: Path | None = None
    ) -> None:
        if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
            use_compilation_cache()
        self.run, self.source, self.own, self.directory = run, source, own, directory
        self._asked, self._draws = 0, 0
        self._training: Training | None = None
        self._loaded = False

    @cached_property
    def env(self) -> Env | HostEnv:
        """The environments, built when they are first needed."""
        return self._source().make(self.run, self.run.loop.num_envs)

    @cached_property
    def task(self) -> SavedModel:
        """The task as the agent sees it, and as a saved model describes it."""
        spaces = spaces_seen(self.env)
        own = self.own.names() if self.own else {}
        return SavedModel(self._source().recipe, self.run, self.env.spec, *spaces, 0, own)

    @cached_property
    def agent(self) -> Agent:
        """The learner as pure functions."""
        return build_agent(self.run.agent_name, self.run.agent, self.task.spec, self.own)

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

    def learn(self, steps: int, progress_bar: bool = True, callback: Given = None) -> Self:
        """Learn for this many more environment steps, in whole chunks of `log_interval`.

        `callback` is a function of each row of metrics, an object with methods of
        `devote.callbacks.Callback`, or a list of them; False from any of them stops learning.
        """
        told = Callbacks(callback, self)
        self._asked += whole_number("steps", steps)
        reporter = Reporter(self._asked, silent=not progress_bar)
        owner = nullcontext() if self.directory is None else RunDirectory(self.directory)
        with owner, StopRequest() as stop:
            training = self._start(reporter)
            try:
                told.tell("on_start")
                training.run(self._asked, stop, lambda rows: told.row(rows[0]))
            finally:
                told.tell("on_end")
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

    def _start(self, reporter: Reporter) -> Training:
        """The training, started or resumed at the first call."""
        if self._training is None:
            store = Store()
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
        """Steps and agent state before any `learn`: loaded, from the directory, or fresh."""
        if self.directory is not None and (self.directory / SETTINGS).exists():
            require_settings(self.directory, self._identity(), MAY_CHANGE, defaults(self.run))
            found = saved_agent(self.directory, self.agent)
            if found is not None:
                return found
        agent_key, _, _ = run_keys(jax.random.key(self.run.seed))  # as the training would start
        return 0, jax.jit(self.agent.init, compiler_options=QUICK_COMPILE)(agent_key)

    def _identity(self) -> dict[str, Any]:
        """What a run directory must agree with."""
        task = {} if self._source().named else {"task": self.task.spec.name}
        own = {"own": self.own.names()} if self.own else {}
        return asdict(self.run) | task | own

    def predict(self, obs: Any, deterministic: bool = True, explore: bool = False) -> np.ndarray:
        """Actions in the environment's own format, for one observation or a batch of them.

        By default the mode of the exploitation actor; a sample of it if not `deterministic`. With
        `explore`, a sample of the exploration actor, which collects the data.
        """
        flat, single = self._flatten(obs)
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

    def _flatten(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Observations as a batch of vectors, and whether there was a single one."""
        layout = Observations(self.task.observation)
        count = layout.batch_of(obs)
        flat = layout.flatten_one(obs)[None] if count is None else layout.flatten(obs, count)
        Guard(self.task.spec, math.inf, more="", rows="observation").obs(flat, len(flat), "predict")
        return flat, count is None

    def evaluate(self, episodes: int = 10) -> dict[str, float]:
        """Mean return and length of complete episodes of the exploitation actor.

        In fresh environments, unless `env` is a single object: then training goes on with new
        episodes.
        """
        episodes = whole_number("episodes", episodes)
        only = self._source().fixed is not None
        env = self.env if only else self._source().make(self.run, min(episodes, 16))
        found = self._evaluate(env, episodes)
        if not only:
            _close(env)
        elif self._training is not None:
            # training starts new episodes: evaluation used its environment
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
        """Write the agent as safetensors, and a JSON table of its settings and spaces."""
        described = replace(self.task, step=self.steps)
        write_model(Path(path), described, self.state)

    def export(self, path: str | Path) -> None:
        """Export the exploitation actor: `policy.onnx` or `policy.stablehlo`.

        Compared with `predict` to 1e-5 before it is written. The input is a batch of observations,
        one vector each (an integer for Discrete); the output is actions of the environment.
        """
        export_policy(Path(path), self.task, self.agent, self.state)

    @classmethod
    def load(cls, path: str | Path, env: Any = None, **parts: Any) -> Self:
        """Read an agent back; without `env`, the environment that it names itself is used.

        `parts` are the objects that it was made with (`network`, `prior`, `optimiser`), if any.
        """
        described = read_model(Path(path))
        own, others = own_parts(parts)
        given = own.names() if own else {}
        if others or given.keys() != described.own.keys():
            expected = f"the parts {described.own or 'of no own code'} of the saved model"
            fix = "give load the objects that the model was made with, such as prior=MyPrior()"
            raise UserError(expected, [*parts] or "none", fix)
        if described.run.agent_name != cls.agent_name:
            fix = f"load it with devote.agent_class({described.run.agent_name!r}).load"
            raise UserError(f"a model of {cls.agent_name}", described.run.agent_name, fix)
        model = cls.__new__(cls)
        if env is None:
            model._set(described.run, described.source(), own)
        else:
            source = env_source(env)
            model._set(source.adapted(described.run), source, own)
            described.require_fit(source.recipe, model.env)
        model.task = described
        shape = jax.eval_shape(model.agent.init, jax.random.key(0))
        model._before, model._loaded = (described.step, read_model_state(Path(path), shape)), True
        return model

    def push_to_hub(
        self, repo: str, private: bool = False, episodes: int = 10, token: str | None = None
    ) -> str:
        """Upload the saved model to the Hugging Face Hub, with a card that says what it is.

        The card has the mean reward over `episodes` complete episodes; 0 evaluates nothing.
        """
        from devote.hub import push

        return push(self, repo, private, episodes, token)

    @classmethod
    def from_hub(
        cls,
        repo: str,
        env: Any = None,
        revision: str | None = None,
        token: str | None = None,
        **parts: Any,
    ) -> Self:
        """`load` from a repository on the Hugging Face Hub; runs no code of it."""
        from devote.hub import pull

        with TemporaryDirectory() as folder:
            return cls.load(pull(repo, folder, revision, token), env, **parts)

    def close(self) -> None:
        """Close the environments."""
        if "program" in vars(self):
            self.program.close()
        elif "env" in vars(self):
            _close(self.env)


class Devote(Model):
    """DEVOTE: optimistic exploration with deep epistemic value functions."""

    agent_name = "devote"


class DevotePlus(Model):
    """DEVOTE with its corrector in closed form; ours, not the paper's."""

    agent_name = "devote-plus"


class Sac(Model):
    """Soft actor-critic: the backbone, and the baseline."""

    agent_name = "sac"


class Rnd(Model):
    """Random network distillation as the paper's baseline: DEVOTE with one ReLU prior."""

    agent_name = "rnd"


class Thompson(Model):
    """Thompson sampling: an ensemble with priors, one member drawn for each episode."""

    agent_name = "thompson"


class Sombrl(Model):
    """SOMBRL: optimism where an ensemble of world models disagrees."""

    agent_name = "sombrl"


def agent_class(name: str) -> type[Model]:
    """The class of any agent, such as `agent_class("rnd-classic").load("runs/classic")`."""
    named = {kind.agent_name: kind for kind in Model.__subclasses__()}
    kind = named.get(choice("the agent", name, tuple(AGENTS)))
    return kind or type(name, (Model,), {"agent_name": name})


def make_agent(name: str, env: Any, **more: Any) -> Model:
    """Any agent by its name, such as `make_agent("rnd-classic", "CartPole-v1", seed=1)`."""
    return agent_class(name)(env, **more)


REPLACES = {
    "network": ("actor_width", "actor_depth", "critic_width", "critic_depth"),
    "prior": (
        *("num_features", "length_scale", "length_scales", "choose_length", "readout"),
        "relu_bias",
    ),
    "optimiser": ("learning_rate", "corrector_rate", "critic_weight_decay"),
}
"""Settings that an object of a user's own takes the place of."""


def own_parts(given: dict[str, Any]) -> tuple[Own | None, dict[str, Any]]:
    """Split keyword arguments into own parts and settings; a string is always a setting."""
    objects = {n: v for n, v in given.items() if n in REPLACES and not isinstance(v, str)}
    settings = {name: value for name, value in given.items() if name not in objects}
    for name in objects:
        idle = [setting for setting in REPLACES[name] if setting in settings]
        if idle:
            fix = f"leave it out: the given {name} decides"
            raise UserError(f"no {idle[0]} beside {name}", f"{idle[0]}={settings[idle[0]]}", fix)
    return (Own(**objects) if objects else None), settings


def _close(env: Env | HostEnv) -> None:
    if isinstance(env, HostEnv):
        env.close()
