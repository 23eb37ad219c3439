"""`check_env`: what an environment does right and wrong, and what to do about it."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import jax
import numpy as np
from gymnasium.vector import VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import Choice
from devote.core.worker import Worker
from devote.envs import checks
from devote.envs.checks import Said, Subject
from devote.envs.gymnasium_settings import GymnasiumSettings
from devote.envs.gymnasium_task import from_vector, name_of, require_env
from devote.envs.gymnasium_vector import autoreset_mode
from devote.envs.naming import Registered, learn_name
from devote.envs.trial import Timed, Trial, try_out
from devote.envs.watched import require_made

Verdict = Literal["pass", "FAIL", "skip"]
Group = tuple[tuple[str, Callable[[Any], Said]], ...]

# In each group the first no ends the group, for what follows would only repeat it.
SPACES = (
    ("observation space", checks.observation_space),
    ("action space", checks.action_space),
    ("reset signature", checks.reset_signature),
)
RUNS = ((("runs", checks.runs),),)
STARTS = (
    (("reset result", checks.reset_result),),
    (
        ("observation shape", checks.observation_shape),
        ("observation dtype", checks.observation_type),
        ("observation finite", checks.observation_finite),
        ("observation in its space", checks.observation_inside),
    ),
)
STEPS = (
    (("step result", checks.step_result),),
    (("observation buffer", checks.observation_kept),),
    (("action buffer", checks.action_kept),),
    (("rewards", checks.rewards),),
    (("info", checks.info),),
    (("flags", checks.flags), ("episodes end", checks.episodes_end)),
)
SEEDING = (("same seed", checks.same_seed), ("reset draws anew", checks.resets_differ))
NEEDED_FOR_SEEDING = {"runs", "reset result", "step result", "rewards"}


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
    source = learn_name(env) if isinstance(env, str) else require_env(env)
    name = name_of(source) if isinstance(source, VectorEnv) else str(env)
    worker, findings = Worker(timeout), []

    def write_down() -> None:
        for finding in _findings(source, worker):
            findings.append(finding)  # one by one: what was found before a hang is kept

    try:
        worker.run(write_down)
        worker.close()
    except EnvironmentFailedError as hang:
        error = UserError(f"an answer within {timeout:g} s", hang, "see above where it waits")
        findings.append(Finding("answers", "FAIL", str(error)))
    return Report(name, tuple(findings))


def _findings(source: Any, worker: Worker) -> Iterator[Finding]:
    if isinstance(source, VectorEnv):
        yield from _vector(source, worker)
        return
    with worker.asking(str(source), "construction", None):
        made, finding = _ask("construction", lambda: _made(source))
    yield finding
    if isinstance(made, VectorEnv):
        yield from _vector(made, worker)
    elif made is not None:
        yield from _single(Timed(made, worker))


def _single(env: gymnasium.Env) -> Iterator[Finding]:
    basic = [_answer(name, check, env) for name, check in SPACES]
    yield from basic
    if any(finding.verdict == "FAIL" for finding in basic):
        yield Finding("behaviour", "skip", "needs the above to pass")
        return
    subject, failed = Subject(env, try_out(env)), set()
    for group in _groups(subject.trial):
        for name, check in group:
            finding = _answer(name, check, subject)
            yield finding
            if finding.verdict == "FAIL":
                failed.add(name)
                break
    if not subject.trial.steps:
        yield Finding("steps", "skip", "there were none to look at")
    for name, check in SEEDING:
        if failed & NEEDED_FOR_SEEDING:
            yield Finding(name, "skip", "needs an environment that can be stepped")
        else:
            yield _answer(name, check, subject)
    yield _answer("close", checks.closes, subject)


def _groups(trial: Trial) -> tuple[Group, ...]:
    """The questions that a trial can answer: of what was never seen nothing is said."""
    return RUNS + (STARTS if trial.starts else ()) + (STEPS if trial.steps else ())


def _vector(envs: VectorEnv, worker: Worker) -> Iterator[Finding]:
    mode, finding = _ask("autoreset mode", lambda: autoreset_mode(envs).name)
    yield finding
    if mode is not None:
        yield _ask("300 steps", lambda: _step_vector(envs, worker))[1]


def _step_vector(envs: VectorEnv, worker: Worker) -> Said:
    task = from_vector(envs, GymnasiumSettings())
    generator, key = np.random.default_rng(0), jax.random.key(0)
    with worker.asking(str(envs), "reset", None):
        task.reset(key)
    kind = task.spec.action
    for step in range(300):
        action = generator.uniform(-1, 1, (task.num_envs, kind.size))
        if isinstance(kind, Choice):
            action = np.eye(kind.size)[action.argmax(axis=1)]
        with worker.asking(str(envs), f"vector step {step + 1}", action):
            task.step(action, key)
    return None


def _answer(name: str, check: Callable[[Any], Said], about: Any) -> Finding:
    said, finding = _ask(name, lambda: check(about))
    return finding if said is None else Finding(name, "pass", str(said))


def _ask(name: str, question: Callable[[], Any]) -> tuple[Any, Finding]:
    """The answer, and the finding that goes with it; a failed question has no answer."""
    try:
        return question(), Finding(name, "pass")
    except UserError as error:
        return None, Finding(name, "FAIL", str(error))
    except (Exception, SystemExit) as error:  # whatever the environment does is a finding
        got = f"{type(error).__name__}: {error}"
        words = UserError("no exception", got, f"correct what raised it:\n{traceback.format_exc()}")
        return None, Finding(name, "FAIL", str(words))


def _made(source: Any) -> gymnasium.Env | VectorEnv:
    env = source if isinstance(source, gymnasium.Env) else source()
    if isinstance(source, Registered) and source.time_limit is not None:
        return gymnasium.wrappers.TimeLimit(env, source.time_limit)
    return env if isinstance(env, VectorEnv) else require_made(env)
