"""What is asked of an environment, one question per function; `UserError` is a no."""

import inspect
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.core.types import Vector
from devote.envs.gymnasium_task import DEFAULT_LIMIT, declared_limit
from devote.envs.spaces import Actions, Observations, name_of
from devote.envs.trial import PATIENCE, Trial, replayed, same
from devote.envs.watched import require_flag, require_info, require_reset, require_reward

Said = str | None
"""A remark on something that passes."""


@dataclass(frozen=True)
class Subject:
    """An environment and what its trial has shown."""

    env: gymnasium.Env
    trial: Trial

    @property
    def observations(self) -> Observations:
        return Observations(self.env.observation_space)


def observation_space(env: gymnasium.Env) -> Said:
    """A space that we can flatten."""
    space = _space(env, "observation_space")
    spec = Observations(space).spec
    if isinstance(spec, Vector) and not np.isfinite([*spec.low, *spec.high]).all():
        return "some entries have no bounds: agents see them relative to the data"
    return None


def action_space(env: gymnasium.Env) -> Said:
    """A finite `Box` of floats or a `Discrete`."""
    _ = Actions(_space(env, "action_space")).spec
    return None


def reset_signature(env: gymnasium.Env) -> Said:
    """`reset(self, *, seed=None, options=None)`."""
    parameters = inspect.signature(env.unwrapped.reset).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    missing = [name for name in ("seed", "options") if name not in parameters]
    if missing and not anything:
        fix = "define reset(self, *, seed=None, options=None), with super().reset(seed=seed) in it"
        raise UserError("reset to take seed and options", f"no {', '.join(missing)}", fix)
    return None


def runs(subject: Subject) -> Said:
    """It plays without raising."""
    if subject.trial.error is not None:
        raise UserError("no exception", subject.trial.error, "see its own traceback above")
    return None


def reset_result(subject: Subject) -> Said:
    """Resets return `(obs, info)`."""
    for start in subject.trial.starts:
        require_reset(start)
    return None


def step_result(subject: Subject) -> Said:
    """Steps return five values."""
    for step in subject.trial.steps:
        if not isinstance(step, tuple) or len(step) != 5:
            got = f"{len(step)} values" if isinstance(step, tuple) else type(step).__name__
            fix = "return obs, reward, terminated, truncated, info"
            raise UserError("step to return 5 values", got, fix)
    return None


def observation_shape(subject: Subject) -> Said:
    """Observations have the keys and shapes of the space, and are numbers."""
    for obs in subject.trial.observations:
        subject.observations.flatten_one(obs)
    return None


def observation_type(subject: Subject) -> Said:
    """Observations have the dtype of the space."""
    for obs in subject.trial.observations:
        for path, leaf in subject.observations.leaves:
            part = obs
            for key in path:
                part = part[key]
            if isinstance(leaf, spaces.Box) and np.asarray(part).dtype != leaf.dtype:
                fix = f"return it with .astype(np.{leaf.dtype}), or change the space"
                expected = f"{name_of(path)} of dtype {leaf.dtype}"
                raise UserError(expected, np.asarray(part).dtype, fix)
    return None


def observation_finite(subject: Subject) -> Said:
    """Observations are finite."""
    for number, obs in enumerate(subject.trial.observations):
        flat = np.atleast_1d(subject.observations.flatten_one(obs))
        if not np.isfinite(flat).all():
            entry = int(np.flatnonzero(~np.isfinite(flat))[0])
            expected = f"finite observations at {subject.observations.names[entry]}"
            fix = "look for a division by 0 or a diverging simulation"
            raise UserError(expected, f"{flat[entry]} in observation {number}", fix)
    return None


def observation_inside(subject: Subject) -> Said:
    """Observations lie in the space."""
    space = subject.env.observation_space
    for obs in subject.trial.observations:
        if not space.contains(obs):
            raise UserError(f"observations in {space}", obs, "widen the space, or clip to it")
    return None


def observation_kept(subject: Subject) -> Said:
    """An observation stays what it was when it was returned."""
    if subject.trial.overwritten:
        got = "an observation that the next step overwrote"
        raise UserError("a new array for every observation", got, "return obs.copy()")
    return None


def action_kept(subject: Subject) -> Said:
    """A step does not write into the action."""
    if subject.trial.action_changed:
        fix = "copy the action before clipping or scaling it"
        raise UserError("actions left as they are", "a step that wrote into its action", fix)
    return None


def rewards(subject: Subject) -> Said:
    """Rewards are single finite numbers."""
    for step in subject.trial.whole:
        require_reward(step[1])
    paid = {float(step[1]) for step in subject.trial.whole}
    return f"every reward was {paid.pop()}" if len(paid) == 1 else None


def flags(subject: Subject) -> Said:
    """`terminated` and `truncated` are booleans."""
    for step in subject.trial.whole:
        require_flag("terminated", step[2])
        require_flag("truncated", step[3])
    return None


def info(subject: Subject) -> Said:
    """`info` is a dict."""
    for step in subject.trial.whole:
        require_info(step[4])
    return None


def episodes_end(subject: Subject) -> Said:
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


def same_seed(subject: Subject) -> Said:
    """The seed decides the trajectory."""
    one, again = replayed(subject.env, 7), replayed(subject.env, 7)
    if not same(one, again):
        first = next(i for i, pair in enumerate(zip(one, again, strict=False)) if not same(*pair))
        got = f"a difference {'in reset' if first == 0 else f'by step {first}'}"
        fix = "call super().reset(seed=seed) and draw from self.np_random only"
        raise UserError("the same trajectory from the same seed and actions", got, fix)
    return None


def resets_differ(subject: Subject) -> Said:
    """Resets without a seed draw anew."""
    env = subject.env
    seeded: list[Any] = [replayed(env, seed, steps=0) for seed in range(4)]
    if all(same(seeded[0], other) for other in seeded[1:]):
        return "every episode starts alike"
    replayed(env, 7, steps=0)
    fresh = [deepcopy(env.reset()[0]) for _ in range(4)]
    if all(same(fresh[0], other) for other in fresh[1:]):
        fix = "seed the generator in reset only when seed is not None"
        raise UserError("reset() to draw a new start", "the same start every time", fix)
    return None


def closes(subject: Subject) -> Said:
    """`close` does not raise."""
    subject.env.close()
    return None


def _space(env: gymnasium.Env, name: str) -> spaces.Space:
    try:
        space = env.get_wrapper_attr(name)
    except AttributeError as error:
        fix = f"set self.{name} in __init__"
        raise UserError(f"an attribute {name}", "none", fix) from error
    if not isinstance(space, spaces.Space):
        fix = f"set self.{name} to a space of gymnasium.spaces"
        raise UserError(f"{name} to be a gymnasium Space", type(space).__name__, fix)
    return space
