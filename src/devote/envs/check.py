"""`check_env`: what an environment does right and wrong, and what to do about it.

A trial plays random and extreme actions and writes down all that comes back; then one question
after another is asked of it. `UserError` is a no; a text is a remark on something that passes.
"""

import faulthandler
import inspect
import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard
from devote.core.types import Choice, EnvSpec, Vector
from devote.core.worker import Worker
from devote.envs.gymnasium import (
    DEFAULT_LIMIT,
    GymnasiumSettings,
    declared_limit,
    from_vector,
    name_of,
    require_env,
    space_of,
)
from devote.envs.naming import Registered, import_factory
from devote.envs.spaces import Actions, Observations, at, path_name
from devote.envs.vector import (
    autoreset_mode,
    read_reset,
    require_five,
    require_flags,
    require_info,
    require_made,
    require_reward,
)

SEED = 7
ENOUGH_STEPS, ENOUGH_EPISODES, PATIENCE = 300, 3, 10_000
Verdict = Literal["pass", "FAIL", "skip"]
Remark = str | None
Question = Callable[[Any], Remark]
"""Asked under its own name."""
Asking = Callable[[str, str, object], AbstractContextManager[None]]
"""Marks the time that is the environment's own: which one, what for, with what action."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    check: str
    verdict: Verdict
    text: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}  {self.check}" + (f": {self.text}" if self.text else "")


@dataclass(frozen=True)
class Report:
    """All answers about one environment."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """The names of what failed."""
        return tuple(finding.check for finding in self.findings if finding.verdict == "FAIL")

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        passed = sum(finding.verdict == "pass" for finding in self.findings)
        last = f"{passed} passed, {len(self.failures)} failed"
        return "\n".join([self.name, *(f"  {finding}" for finding in self.findings), last])


def check_env(env: Any, timeout: float = 60.0) -> Report:
    """Try an environment out: an id, an environment, a factory or a vector environment.

    One that does not answer a call for `timeout` seconds is given up.
    """
    source = import_factory(env) if isinstance(env, str) else require_env(env)
    name = name_of(source) if isinstance(source, VectorEnv) else str(env)
    findings: list[Finding] = []
    worker = Worker(timeout)
    _check(source, worker, worker.asking, findings.append)
    return Report(name, tuple(findings))


def check_apart(name: str, timeout: float = 60.0) -> Report:
    """The same for a name in a process of its own, so that one that ends its process is named."""
    import_factory(name)  # what cannot be found is refused here
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_check_in_child, args=(name, timeout, writer), daemon=True)
    child.start()
    writer.close()
    findings, last = [], "construction"
    try:
        while (told := reader.recv()) is not None:
            if isinstance(told, Finding):
                findings.append(told)
            else:
                last = told
        child.join(timeout)  # a thread that hangs does not keep it from ending
    except EOFError:
        child.join()
        expected = "an environment that leaves its process running"
        got = f"a process that ended with exit code {child.exitcode} in {last}"
        fix = "raise an exception instead of os._exit, or look for a crash in native code"
        findings.append(Finding("answers", "FAIL", str(UserError(expected, got, fix))))
    return Report(name, tuple(findings))


def _check_in_child(name: str, timeout: float, writer: Any) -> None:
    faulthandler.enable()  # a crash in native code shows where
    worker = Worker(timeout)

    @contextmanager
    def asking(which: str, when: str, action: object) -> Iterator[None]:
        writer.send(f"{when}; last action {action}")
        with worker.asking(which, when, action):
            yield

    _check(import_factory(name), worker, asking, writer.send)
    writer.send(None)


def _check(source: Any, worker: Worker, asking: Asking, tell: Callable[[Finding], Any]) -> None:
    """Tell findings one by one: what was found before a hang is kept."""

    def run() -> None:
        for finding in _findings(source, asking):
            tell(finding)

    try:
        worker.run(run)
        worker.close()
    except EnvironmentFailedError as hang:
        expected = f"an answer within {worker.timeout:g} s"
        error = UserError(expected, hang, "see above where it waits")
        tell(Finding("answers", "FAIL", str(error)))


def _findings(source: Any, asking: Asking) -> Iterator[Finding]:
    if isinstance(source, VectorEnv):
        yield from _vector(source, asking)
        return
    with asking(str(source), "construction", None):
        made, finding = _ask("construction", lambda: _made(source))
    yield finding
    if isinstance(made, VectorEnv):
        yield from _vector(made, asking)
    elif made is not None:
        yield from _single(Timed(made, asking))


def _made(source: Any) -> gymnasium.Env | VectorEnv:
    env = source if isinstance(source, gymnasium.Env) else source()
    if isinstance(source, Registered) and source.time_limit is not None:
        return gymnasium.wrappers.TimeLimit(env, source.time_limit)
    return env if isinstance(env, VectorEnv) else require_made(env)


def _single(env: gymnasium.Env) -> Iterator[Finding]:
    basic = [_answer(question, env) for question in BASICS]
    yield from basic
    if any(finding.verdict == "FAIL" for finding in basic):
        yield Finding("behaviour", "skip", "needs the above to pass")
        return
    subject, failed = Subject(env, try_out(env)), set()
    trial = subject.trial
    # of what was never seen nothing is said
    groups = RUNS + (STARTS if trial.starts else ()) + (STEPS if trial.steps else ())
    for group in groups:
        for question in group:
            finding = _answer(question, subject)
            yield finding
            if finding.verdict == "FAIL":
                failed.add(finding.check)
                break
    if not trial.steps:
        yield Finding("steps", "skip", "there were none to look at")
    for question in SEEDING:
        if failed & NEEDED_FOR_SEEDING:
            yield Finding(_name(question), "skip", "needs an environment that can be stepped")
        else:
            yield _answer(question, subject)
    yield _answer(close, subject)


def _vector(envs: VectorEnv, asking: Asking) -> Iterator[Finding]:
    mode, finding = _ask("autoreset mode", lambda: autoreset_mode(envs).name)
    yield finding
    if mode is not None:
        yield _ask("300 steps", lambda: _step_vector(envs, asking))[1]


def _step_vector(envs: VectorEnv, asking: Asking) -> None:
    task = from_vector(envs, GymnasiumSettings())
    guard, kind = Guard(task.spec, more=""), task.spec.action
    generator, key = np.random.default_rng(0), jax.random.key(0)
    with asking(str(envs), "reset", None):
        obs = task.reset(key)
    guard.obs(obs, task.num_envs, "reset")
    for number in range(1, ENOUGH_STEPS + 1):
        action = generator.uniform(-1, 1, (task.num_envs, kind.size))
        if isinstance(kind, Choice):
            action = np.eye(kind.size)[action.argmax(axis=1)]
        with asking(str(envs), f"vector step {number}", action):
            step = task.step(action, key)
        guard.step(step, action, f"vector step {number}")


def _answer(question: Question, about: Any) -> Finding:
    name = _name(question)
    remark, finding = _ask(name, lambda: question(about))
    return finding if remark is None else Finding(name, "pass", str(remark))


def _name(question: Question) -> str:
    return question.__name__.replace("_", " ")


def _ask(name: str, question: Callable[[], Any]) -> tuple[Any, Finding]:
    """The answer, and the finding that goes with it; a failed question has no answer."""
    try:
        return question(), Finding(name, "pass")
    except UserError as error:
        return None, Finding(name, "FAIL", str(error))
    except BaseException as error:  # whatever the environment does is a finding
        got = f"{type(error).__name__}: {error}"
        words = UserError("no exception", got, f"correct what raised it:\n{traceback.format_exc()}")
        return None, Finding(name, "FAIL", str(words))


class Timed(gymnasium.Wrapper):
    """Marks what is asked of an environment, so that a hang or a crash is placed."""

    def __init__(self, env: gymnasium.Env, asking: Asking) -> None:
        super().__init__(env)
        self.asking, self.steps = asking, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        """The environment's own reset."""
        given: dict[str, Any] = {} if options is None else {"options": options}
        with self.asking(str(self.env), "reset", None):
            return self.env.reset(seed=seed, **given)

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
    """What was seen; copies, so that nobody changes it later."""

    starts: list[Any] = field(default_factory=list)
    """What `reset` returned, whatever that was."""
    steps: list[Any] = field(default_factory=list)
    """What `step` returned, whatever that was."""
    lengths: list[int] = field(default_factory=list)
    """Steps of the episodes that ended."""
    ends: list[tuple[bool, bool]] = field(default_factory=list)
    """How they ended: terminated, truncated."""
    overwritten: bool = False
    """Whether an observation changed after it was returned."""
    action_changed: bool = False
    """Whether a step wrote into the action."""
    error: str | None = None
    """Where and how the environment raised, with its traceback."""

    @property
    def whole(self) -> list[tuple[Any, ...]]:
        """The steps that have five parts."""
        return [step for step in self.steps if isinstance(step, tuple) and len(step) == 5]

    @property
    def observations(self) -> list[Any]:
        """Every observation, of resets and of steps."""
        started = [s[0] for s in self.starts if isinstance(s, tuple) and len(s) == 2]
        return started + [step[0] for step in self.whole]


def try_out(env: gymnasium.Env, patience: int = PATIENCE) -> Trial:
    """Play until a few episodes have ended, or patience has."""
    trial = Trial()
    action: Any = None
    generator = np.random.default_rng(SEED)
    try:
        length, last = 0, _start(env, trial, SEED)
        while len(trial.steps) < patience:
            action = draw(env.action_space, generator)
            given = deepcopy(action)
            result = env.step(action)
            trial.action_changed |= not same(action, given)
            trial.overwritten |= last is not None and not same(*last)
            trial.steps.append(deepcopy(result))
            if not isinstance(result, tuple) or len(result) != 5:
                break
            last = _kept(result)
            length += 1
            flags = (bool(np.any(result[2])), bool(np.any(result[3])))
            if any(flags):
                trial.lengths.append(length)
                trial.ends.append(flags)
                if len(trial.lengths) >= ENOUGH_EPISODES and len(trial.steps) >= ENOUGH_STEPS:
                    break
                length, last = 0, _start(env, trial, None)
    except BaseException:
        where = f"step {len(trial.steps) + 1} after action {action}" if trial.starts else "reset"
        trial.error = f"{where}:\n{traceback.format_exc()}"
    return trial


def replayed(env: gymnasium.Env, seed: int, steps: int = 30) -> list[Any]:
    """Start, rewards and observations of one seeded stretch with fixed actions."""
    generator = np.random.default_rng(SEED)
    seen: list[Any] = [deepcopy(env.reset(seed=seed)[0])]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(draw(env.action_space, generator))
        seen.append((deepcopy(obs), float(reward)))
        if terminated or truncated:
            seen.append(deepcopy(env.reset()[0]))
    return seen


def draw(space: spaces.Space, generator: np.random.Generator) -> Any:
    """An action: of a `Box` half of them inside, the others at the bounds."""
    if not isinstance(space, spaces.Box):
        choices = Actions(space).spec.size
        return Actions(space).to_env(np.eye(choices)[generator.integers(choices)][None])[0]
    inside = generator.uniform(space.low, space.high)
    bound = np.where(generator.random(space.shape) < 0.5, space.low, space.high)
    return (inside if generator.random() < 0.5 else bound).astype(space.dtype)


def same(one: Any, other: Any) -> bool:
    """Whether two observations, rewards or lists of them are equal, part by part."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return np.array_equal(one, other, equal_nan=True)
    except TypeError:  # not numbers
        return bool(np.all(one == other))


def _start(env: gymnasium.Env, trial: Trial, seed: int | None) -> tuple[Any, Any] | None:
    """A reset, and its observation as `_kept` keeps it."""
    start = env.reset(seed=seed)
    trial.starts.append(deepcopy(start))
    return _kept(start)


def _kept(result: Any) -> tuple[Any, Any] | None:
    """The observation of a result and a copy of it, to see whether somebody writes into it."""
    return (result[0], deepcopy(result[0])) if isinstance(result, tuple) and result else None


@dataclass(frozen=True)
class Subject:
    """An environment and what its trial has shown."""

    env: gymnasium.Env
    trial: Trial

    @cached_property
    def observations(self) -> Observations:
        return Observations(self.env.observation_space)

    @cached_property
    def spec(self) -> EnvSpec:
        action = Actions(self.env.action_space).spec
        return EnvSpec(name_of(self.env), self.observations.spec, action, episode_length=1)

    def require_obs(self, bounds: bool) -> None:
        """What training asks of observations, with or without their bounds."""
        guard = Guard(self.spec, bounds, more="")
        for number, obs in enumerate(self.trial.observations):
            flat = self.observations.flatten_one(obs)
            guard.obs(flat[None], 1, f"observation {number}")


def observation_space(env: gymnasium.Env) -> Remark:
    """A space that we can flatten."""
    spec = Observations(space_of(env, "observation_space")).spec
    if isinstance(spec, Vector) and not np.isfinite([*spec.low, *spec.high]).all():
        return "some entries have no bounds: agents see them relative to the data"
    return None


def action_space(env: gymnasium.Env) -> None:
    """A finite `Box` of floats, or not too many choices."""
    _ = Actions(space_of(env, "action_space")).spec


def time_limit(env: gymnasium.Env) -> None:
    """A time limit, if there is one, is a number of steps."""
    declared_limit(env)


def reset_signature(env: gymnasium.Env) -> None:
    """`reset(self, *, seed=None, options=None)`."""
    parameters = inspect.signature(env.unwrapped.reset).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    missing = [name for name in ("seed", "options") if name not in parameters]
    if missing and not anything:
        fix = "define reset(self, *, seed=None, options=None), with super().reset(seed=seed) in it"
        raise UserError("reset to take seed and options", f"no {', '.join(missing)}", fix)


def runs(subject: Subject) -> None:
    """It plays without raising."""
    if subject.trial.error is not None:
        raise UserError("no exception", subject.trial.error, "see its own traceback above")


def reset_result(subject: Subject) -> Remark:
    """Resets return `(obs, info)`."""
    for start in subject.trial.starts:
        read_reset(start)
    return None


def step_result(subject: Subject) -> Remark:
    """Steps return five values."""
    for step in subject.trial.steps:
        require_five(step)
    return None


def observation_shape(subject: Subject) -> None:
    """Observations have the keys and shapes of the space, and are numbers."""
    for obs in subject.trial.observations:
        subject.observations.flatten_one(obs)


def observation_dtype(subject: Subject) -> Remark:
    """Observations have the dtype of the space."""
    for obs in subject.trial.observations:
        for path, leaf in subject.observations.leaves:
            dtype = np.asarray(at(obs, path)).dtype
            if isinstance(leaf, spaces.Box) and dtype != leaf.dtype:
                fix = f"return it with .astype(np.{leaf.dtype}), or change the space"
                raise UserError(f"{path_name(path)} of dtype {leaf.dtype}", dtype, fix)
    return None


def observation_finite(subject: Subject) -> None:
    """Observations are finite."""
    subject.require_obs(bounds=False)


def observation_in_its_space(subject: Subject) -> None:
    """Observations lie in the space."""
    subject.require_obs(bounds=True)
    space = subject.env.observation_space
    for obs in subject.trial.observations:
        if not space.contains(obs):
            raise UserError(f"observations in {space}", obs, "widen the space, or clip to it")


def observation_buffer(subject: Subject) -> Remark:
    """An observation stays what it was when it was returned."""
    if subject.trial.overwritten:
        got = "an observation that the next step overwrote"
        raise UserError("a new array for every observation", got, "return obs.copy()")
    return None


def action_buffer(subject: Subject) -> None:
    """A step does not write into the action."""
    if subject.trial.action_changed:
        fix = "copy the action before clipping or scaling it"
        raise UserError("actions left as they are", "a step that wrote into its action", fix)


def rewards(subject: Subject) -> Remark:
    """Rewards are single finite numbers."""
    guard = Guard(subject.spec, more="")
    for number, step in enumerate(subject.trial.whole, 1):
        require_reward(step[1])
        guard.finite("reward", np.array([step[1]], np.float32), f"step {number}", None)
    paid = {float(step[1]) for step in subject.trial.whole}
    return f"every reward was {paid.pop()}" if len(paid) == 1 else None


def flags(subject: Subject) -> None:
    """`terminated` and `truncated` are booleans."""
    for step in subject.trial.whole:
        require_flags(step)


def info(subject: Subject) -> None:
    """`info` is a dict."""
    for step in subject.trial.whole:
        require_info(step[4])


def episodes_end(subject: Subject) -> Remark:
    """Episodes end by themselves or by a limit, and a limit is a truncation."""
    trial, declared = subject.trial, declared_limit(subject.env)
    if not trial.lengths and declared is None and len(trial.steps) >= PATIENCE:
        fix = "wrap it in gymnasium.wrappers.TimeLimit, or pass time_limit"
        raise UserError("an episode that ends", f"{PATIENCE:,} steps without an end", fix)
    if declared is None and max(trial.lengths, default=0) > DEFAULT_LIMIT:
        return f"no declared time limit: training cuts episodes after {DEFAULT_LIMIT:,} steps"
    lengths = set(trial.lengths)
    if len(trial.lengths) >= 3 and len(lengths) == 1 and all(end[0] for end in trial.ends):
        length = lengths.pop()
        if length == 1:
            return "every episode ended in its first step"
        return (
            f"every episode terminated after exactly {length} steps: if that is a time limit, "
            "return it as truncated, so that agents look beyond it"
        )
    return None


def same_seed(subject: Subject) -> None:
    """The seed decides the trajectory."""
    one, again = replayed(subject.env, SEED), replayed(subject.env, SEED)
    if not same(one, again):
        first = next(i for i, pair in enumerate(zip(one, again, strict=False)) if not same(*pair))
        got = f"a difference {'in reset' if first == 0 else f'by step {first}'}"
        fix = "call super().reset(seed=seed) and draw from self.np_random only"
        raise UserError("the same trajectory from the same seed and actions", got, fix)


def reset_draws_anew(subject: Subject) -> Remark:
    """Resets without a seed draw anew."""
    env = subject.env
    seeded: list[Any] = [replayed(env, seed, steps=0) for seed in range(4)]
    if all(same(seeded[0], other) for other in seeded[1:]):
        return "every episode starts alike"
    replayed(env, SEED, steps=0)
    fresh = [deepcopy(env.reset()[0]) for _ in range(4)]
    if all(same(fresh[0], other) for other in fresh[1:]):
        fix = "seed the generator in reset only when seed is not None"
        raise UserError("reset() to draw a new start", "the same start every time", fix)
    return None


def close(subject: Subject) -> None:
    """`close` does not raise."""
    subject.env.close()


BASICS: tuple[Question, ...] = (observation_space, action_space, time_limit, reset_signature)
# In each group the first no ends the group, for what follows would only repeat it.
RUNS: tuple[tuple[Question, ...], ...] = ((runs,),)
STARTS: tuple[tuple[Question, ...], ...] = (
    (reset_result,),
    (observation_shape, observation_dtype, observation_finite, observation_in_its_space),
)
STEPS: tuple[tuple[Question, ...], ...] = (
    (step_result,),
    (observation_buffer,),
    (action_buffer,),
    (rewards,),
    (info,),
    (flags, episodes_end),
)
SEEDING: tuple[Question, ...] = (same_seed, reset_draws_anew)
NEEDED_FOR_SEEDING = {"runs", "reset result", "step result", "rewards"}
