"""`check_env`: what an environment does wrong, and how to fix it.

A trial plays random and extreme actions and records everything that comes back; the checks then
read that record. A check fails by raising `UserError`; text that it returns is a note on a pass.
"""

import faulthandler
import inspect
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Literal

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard, read_reset, read_step
from devote.core.types import Box, Choice, EnvSpec, Index
from devote.core.worker import Worker
from devote.envs.gymnasium import (
    DEFAULT_LIMIT,
    GymnasiumSettings,
    declared_limit,
    from_vector,
    name_of,
    require_alike,
    require_env,
    require_new,
    space_of,
)
from devote.envs.naming import Registered, import_factory, with_options
from devote.envs.spaces import Actions, Observations, at, path_name
from devote.envs.vector import autoreset_mode, own_traceback, require_made

SEED = 7
ENOUGH_STEPS, ENOUGH_EPISODES, PATIENCE = 300, 3, 10_000
Note = str | None
Check = Callable[[Any], Note]
"""Its report shows it under the name of the function."""
Asking = Callable[[str, str, object], AbstractContextManager[None]]
"""Marks the time spent in the environment's own code: environment, call, last action."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    verdict: Literal["pass", "FAIL", "skip"]
    text: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}  {self.check}" + (f": {self.text}" if self.text else "")


@dataclass(frozen=True)
class Report:
    """The results of all checks of one environment."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(finding.check for finding in self.findings if finding.verdict == "FAIL")

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        passed = sum(finding.verdict == "pass" for finding in self.findings)
        last = f"{passed} passed, {len(self.failures)} failed"
        return "\n".join([self.name, *(f"  {finding}" for finding in self.findings), last])


def check_env(env: Any, timeout: float = 60.0) -> Report:
    """Check an id, an environment, a factory or a vector environment.

    A call that has not returned after `timeout` seconds ends the check.
    """
    source = import_factory(env) if isinstance(env, str) else require_env(env)
    if isinstance(source, gymnasium.Env | VectorEnv):
        name = name_of(source)
    else:
        name = getattr(env, "__name__", str(env))
    findings: list[Finding] = []
    worker = Worker(timeout)
    _run(source, worker, worker.asking, findings.append)
    return Report(name, tuple(findings))


def check_in_child(name: str, options: Sequence[str] = (), timeout: float = 60.0) -> Report:
    """Check in a child process, so that an environment that kills its process is reported."""
    with_options(import_factory(name), options)  # refused here if they do not exist
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(name, options, timeout, writer), daemon=True)
    child.start()
    writer.close()
    findings, last = [], "construction"
    try:
        while (told := reader.recv()) is not None:
            if isinstance(told, Finding):
                findings.append(told)
            else:
                last = told
        child.join(timeout)  # daemon threads that hang do not keep it alive
    except EOFError:
        child.join()
        expected = "an environment that leaves its process running"
        got = f"a process that ended with exit code {child.exitcode} in {last}"
        fix = "raise an exception instead of os._exit, or look for a crash in native code"
        findings.append(Finding("answers", "FAIL", str(UserError(expected, got, fix))))
    return Report(name, tuple(findings))


def _child(name: str, options: Sequence[str], timeout: float, writer: Any) -> None:
    faulthandler.enable()  # shows where native code crashed
    worker = Worker(timeout)

    @contextmanager
    def asking(which: str, when: str, action: object) -> Iterator[None]:
        writer.send(f"{when}; last action {action}")
        with worker.asking(which, when, action):
            yield

    _run(with_options(import_factory(name), options), worker, asking, writer.send)
    writer.send(None)


def _run(source: Any, worker: Worker, asking: Asking, tell: Callable[[Finding], Any]) -> None:
    """Tell findings one by one, so that those before a hang are kept."""

    def run() -> None:
        for finding in _findings(source, asking):
            tell(finding)

    try:
        worker.run(run)
        worker.close()
    except EnvironmentFailedError as hang:
        error = UserError(f"an answer within {worker.timeout:g} s", hang, "see where it waits")
        tell(Finding("answers", "FAIL", str(error)))


def _findings(source: Any, asking: Asking) -> Iterator[Finding]:
    env, note = source, None
    if not isinstance(source, VectorEnv):
        with asking(str(source), "construction", None):
            env, finding = _try("construction", lambda: _made(source))
        if isinstance(env, VectorEnv):
            note = "a vector environment: train in Python, where an agent takes the object itself"
        yield finding if note is None else Finding("construction", "pass", note)
    if isinstance(env, VectorEnv):
        mode, finding = _try("autoreset mode", lambda: autoreset_mode(env).name)
        yield finding
        if mode is not None:
            yield _try("300 steps", lambda: _step_vector(env, asking))[1]
    elif env is not None:
        yield from _single(Timed(env, asking), source)


def _made(source: Any) -> gymnasium.Env | VectorEnv:
    env = source if isinstance(source, gymnasium.Env) else source()
    if isinstance(source, Registered) and source.time_limit is not None:
        return gymnasium.wrappers.TimeLimit(env, source.time_limit)
    return env if isinstance(env, VectorEnv) else require_made(env)


def _second(env: "Timed", source: Any) -> None:
    """Training makes several environments, which must not be one, nor differ in their spaces."""
    with env.asking(str(source), "construction", None):
        other = require_made(_made(source))
    require_new(env)
    require_new(other)
    require_alike([env, other], name_of(env))
    with suppress(Exception):  # reported of the first
        other.close()


def _single(env: "Timed", source: Any) -> Iterator[Finding]:
    basic = [_answer(check, env) for check in BASICS]
    yield from basic
    if any(finding.verdict == "FAIL" for finding in basic):
        yield Finding("behaviour", "skip", "needs the above to pass")
        return
    if env.env is not source:
        yield _try("second environment", lambda: _second(env, source))[1]
    trial, failed = try_out(env), set()
    # what never happened cannot pass
    for group in ((runs,), *(STARTS if trial.starts else ()), *(STEPS if trial.steps else ())):
        for check in group:
            yield (finding := _answer(check, trial))
            if finding.verdict == "FAIL":
                failed.add(finding.check)
                break
    if not trial.steps:
        yield Finding("steps", "skip", "the environment was never stepped")
    for check in (same_seed, reset_draws_anew):
        if failed & NEEDED_FOR_SEEDING:
            yield Finding(_name(check), "skip", "needs an environment that can be stepped")
        else:
            yield _answer(check, trial)
    yield _answer(close, trial)


def _step_vector(envs: VectorEnv, asking: Asking) -> None:
    task = from_vector(envs, GymnasiumSettings())
    guard, key = Guard(task.spec, more=""), jax.random.key(0)
    generator = np.random.default_rng(SEED)
    with asking(str(envs), "reset", None):
        obs = task.reset(key)
    guard.obs(obs, task.num_envs, "reset")
    for number in range(1, ENOUGH_STEPS + 1):
        action = draw(task.spec.action, generator, task.num_envs)
        with asking(str(envs), f"vector step {number}", action):
            step = task.step(action, key)
        guard.step(step, action, f"vector step {number}")


def _name(check: Check) -> str:
    return check.__name__.replace("_", " ")


def _answer(check: Check, about: Any) -> Finding:
    note, finding = _try(_name(check), lambda: check(about))
    return finding if note is None else Finding(finding.check, "pass", note)


def _try(name: str, call: Callable[[], Any]) -> tuple[Any, Finding]:
    """What the call returned, None if it failed, and the finding."""
    try:
        return call(), Finding(name, "pass")
    except UserError as error:
        return None, Finding(name, "FAIL", str(error))
    except BaseException as error:  # whatever the environment does is a finding
        return None, Finding(name, "FAIL", str(_raised(error)))


def _raised(error: BaseException, where: str = "") -> UserError:
    """What the environment raised, with its traceback."""
    got = f"{type(error).__name__}: {error}{where}"
    return UserError("no exception", got, f"fix what raised it:\n{own_traceback(error).rstrip()}")


class Timed(gymnasium.Wrapper):
    """Marks every call of an environment, so that a hang or a crash can be located."""

    def __init__(self, env: gymnasium.Env, asking: Asking) -> None:
        super().__init__(env)
        self.asking, self.steps = asking, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        """The environment's own reset."""
        with self.asking(str(self.env), "reset", None):
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """The environment's own step."""
        self.steps += 1
        with self.asking(str(self.env), f"step {self.steps:,}", action):
            return self.env.step(action)

    def close(self) -> None:
        """The environment's own close."""
        with self.asking(str(self.env), "close", None):
            self.env.close()


@dataclass
class Trial:
    """An environment, and copies of everything that it returned."""

    env: gymnasium.Env
    starts: list[Any] = field(default_factory=list)
    """Results of `reset`, whatever they were."""
    steps: list[Any] = field(default_factory=list)
    """Results of `step`, whatever they were."""
    episodes: list[tuple[int, bool]] = field(default_factory=list)
    """Of those that ended: number of steps, and whether they terminated."""
    overwritten: bool = False
    """Whether an observation changed after it was returned."""
    action_changed: bool = False
    """Whether a step wrote into the action."""
    error: UserError | None = None
    """What the environment raised."""

    @property
    def whole(self) -> list[tuple[Any, ...]]:
        """The steps that have five parts."""
        return [step for step in self.steps if isinstance(step, tuple) and len(step) == 5]

    @property
    def observations(self) -> list[Any]:
        """Every observation, of resets and of steps."""
        started = [s[0] for s in self.starts if isinstance(s, tuple) and len(s) == 2]
        return started + [step[0] for step in self.whole]

    @cached_property
    def layout(self) -> Observations:
        return Observations(self.env.observation_space)

    @cached_property
    def spec(self) -> EnvSpec:
        action = Actions(self.env.action_space).spec
        return EnvSpec(name_of(self.env), self.layout.spec, action, episode_length=1)

    def require_obs(self, margin: float) -> None:
        """Look at the numbers as training does, within another margin."""
        guard = Guard(self.spec, margin, more="")
        for number, obs in enumerate(self.observations):
            guard.obs(self.layout.flatten_one(obs)[None], 1, f"observation {number}")


def try_out(env: gymnasium.Env) -> Trial:
    """Play a few episodes, or `PATIENCE` steps if they do not end."""
    trial, actions, action = Trial(env), Actions(env.action_space), None
    generator = np.random.default_rng(SEED)
    try:
        length, last = 0, _start(env, trial, SEED)
        while len(trial.steps) < PATIENCE:
            action = actions.to_env(draw(actions.spec, generator))[0]
            given = deepcopy(action)
            result = env.step(action)
            trial.action_changed |= not same(action, given)
            trial.overwritten |= last is not None and not same(*last)
            trial.steps.append(deepcopy(result))
            if not isinstance(result, tuple) or len(result) != 5:
                break
            last = _kept(result)
            length += 1
            if np.any(result[2]) or np.any(result[3]):
                trial.episodes.append((length, bool(np.any(result[2]))))
                if len(trial.episodes) >= ENOUGH_EPISODES and len(trial.steps) >= ENOUGH_STEPS:
                    break
                length, last = 0, _start(env, trial, None)
    except BaseException as error:
        step = f"step {len(trial.steps) + 1} after action {action}"
        trial.error = _raised(error, f" in {step if trial.starts else 'reset'}")
    return trial


def _start(env: gymnasium.Env, trial: Trial, seed: int | None) -> tuple[Any, Any] | None:
    start = env.reset(seed=seed)
    trial.starts.append(deepcopy(start))
    return _kept(start)


def _kept(result: Any) -> tuple[Any, Any] | None:
    """The observation and a copy of it, to see whether anything writes into it."""
    return (result[0], deepcopy(result[0])) if isinstance(result, tuple) and result else None


def replayed(env: gymnasium.Env, seed: int, steps: int = 30) -> list[Any]:
    """Observations and rewards after a seeded reset, under fixed actions."""
    generator, actions = np.random.default_rng(SEED), Actions(env.action_space)
    seen: list[Any] = [deepcopy(env.reset(seed=seed)[0])]
    for _ in range(steps):
        action = actions.to_env(draw(actions.spec, generator))[0]
        obs, reward, terminated, truncated, _ = env.step(action)
        seen.append((deepcopy(obs), float(reward)))
        if terminated or truncated:
            seen.append(deepcopy(env.reset()[0]))
    return seen


def draw(space: Box | Choice, generator: np.random.Generator, count: int = 1) -> np.ndarray:
    """Actions as agents give them; continuous ones lie at their bounds half of the time."""
    if isinstance(space, Choice):
        one_hot = np.zeros((count, space.size), np.float32)
        one_hot[np.arange(count), generator.integers(space.size, size=count)] = 1
        return one_hot
    inside = generator.uniform(-1, 1, (count, space.size))
    return np.where(generator.random((count, 1)) < 0.5, inside, np.sign(inside))


def same(one: Any, other: Any) -> bool:
    """Whether two nested observations, rewards or lists of them are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return np.array_equal(one, other, equal_nan=True)
    except TypeError:  # not numbers
        return bool(np.all(one == other))


def observation_space(env: gymnasium.Env) -> Note:
    spec = Observations(space_of(env, "observation_space")).spec
    if isinstance(spec, Index):
        return f"an integer with {spec.size:,} values"
    unbounded = int(np.sum(~np.isfinite(spec.low) | ~np.isfinite(spec.high)))
    note = f"a vector of {spec.size:,}" + (" bytes" if spec.dtype == "uint8" else "")
    if unbounded:
        note += f"; {unbounded:,} without bounds are normalised with running statistics"
    return note


def action_space(env: gymnasium.Env) -> Note:
    spec = Actions(space_of(env, "action_space")).spec
    return f"{spec.size:,} choices" if isinstance(spec, Choice) else f"a vector of {spec.size:,}"


def time_limit(env: gymnasium.Env) -> Note:
    if (limit := declared_limit(env)) is not None:
        return f"{limit:,} steps"
    return f"none declared: training truncates episodes that reach {DEFAULT_LIMIT:,} steps"


def reset_signature(env: gymnasium.Env) -> None:
    parameters = inspect.signature(env.unwrapped.reset).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    missing = [name for name in ("seed", "options") if name not in parameters]
    if missing and not anything:
        fix = "define reset(self, *, seed=None, options=None), with super().reset(seed=seed) in it"
        raise UserError("reset to take seed and options", f"no {', '.join(missing)}", fix)


def runs(trial: Trial) -> None:
    if trial.error is not None:
        raise trial.error


def reset_result(trial: Trial) -> None:
    for start in trial.starts:
        read_reset(start)


def step_result(trial: Trial) -> None:
    for step in trial.steps:
        read_step(step)


def observation_shape(trial: Trial) -> None:
    for obs in trial.observations:
        trial.layout.flatten_one(obs)


def observation_dtype(trial: Trial) -> None:
    for obs in trial.observations:
        for path, leaf in trial.layout.leaves:
            dtype = np.asarray(at(obs, path)).dtype
            if isinstance(leaf, spaces.Box) and dtype != leaf.dtype:
                fix = f"return it with .astype(np.{leaf.dtype}), or change the space"
                raise UserError(f"{path_name(path)} of dtype {leaf.dtype}", dtype, fix)


def observation_finite(trial: Trial) -> None:
    trial.require_obs(margin=inf)


def observation_in_its_space(trial: Trial) -> None:
    trial.require_obs(margin=0)
    space = trial.env.observation_space
    for obs in trial.observations:
        if not space.contains(obs):  # bounds that are too wide to normalise by, and MiniGrid's
            raise UserError(f"observations in {space}", obs, "widen the space, or clip to it")


def observation_buffer(trial: Trial) -> None:
    if trial.overwritten:
        got = "an observation that the next step overwrote"
        raise UserError("a new array for every observation", got, "return obs.copy()")


def action_buffer(trial: Trial) -> None:
    if trial.action_changed:
        fix = "copy the action before clipping or scaling it"
        raise UserError("actions left as they are", "a step that wrote into its action", fix)


def rewards(trial: Trial) -> Note:
    guard = Guard(trial.spec, more="")
    for number, step in enumerate(trial.whole, 1):
        guard.finite("reward", np.array([step[1]], np.float32), f"step {number}", None)
    paid = {float(step[1]) for step in trial.whole}
    return f"every reward was {paid.pop()}" if len(paid) == 1 else None


def episodes_end(trial: Trial) -> Note:
    if not trial.episodes and declared_limit(trial.env) is None and len(trial.steps) >= PATIENCE:
        fix = "wrap it in gymnasium.wrappers.TimeLimit, or set time_limit for training"
        raise UserError("an episode that ends", f"{PATIENCE:,} steps without an end", fix)
    lengths = {length for length, _ in trial.episodes}
    terminated = all(ended for _, ended in trial.episodes)
    if len(trial.episodes) < ENOUGH_EPISODES or len(lengths) > 1 or not terminated:
        return None
    if lengths == {1}:
        return "every episode ended in its first step"
    return (
        f"every episode terminated after exactly {lengths.pop()} steps: if that is a time limit, "
        "return it as truncated, so that values bootstrap there"
    )


def same_seed(trial: Trial) -> None:
    one, again = replayed(trial.env, SEED), replayed(trial.env, SEED)
    if not same(one, again):
        first = next(i for i, pair in enumerate(zip(one, again, strict=False)) if not same(*pair))
        got = f"a difference {'in reset' if first == 0 else f'by step {first}'}"
        fix = "call super().reset(seed=seed) and draw from self.np_random only"
        raise UserError("the same trajectory from the same seed and actions", got, fix)


def reset_draws_anew(trial: Trial) -> Note:
    env = trial.env
    seeded: list[Any] = [replayed(env, seed, steps=0) for seed in range(4)]
    if all(same(seeded[0], other) for other in seeded[1:]):
        return "all episodes start in the same state"
    replayed(env, SEED, steps=0)
    fresh = [deepcopy(env.reset()[0]) for _ in range(4)]
    if all(same(fresh[0], other) for other in fresh[1:]):
        fix = "seed the generator in reset only when seed is not None"
        raise UserError("reset() to draw a new start", "the same start every time", fix)
    return None


def close(trial: Trial) -> None:
    trial.env.close()


BASICS: tuple[Check, ...] = (observation_space, action_space, time_limit, reset_signature)
# The first failure ends its group: what follows would only repeat it.
STARTS: tuple[tuple[Check, ...], ...] = (
    (reset_result,),
    (observation_shape, observation_dtype, observation_finite, observation_in_its_space),
)
STEPS: tuple[tuple[Check, ...], ...] = (
    (step_result, rewards, episodes_end),
    (observation_buffer,),
    (action_buffer,),
)
NEEDED_FOR_SEEDING = {"runs", "reset result", "step result"}
