"""The one check of what environments on the host return, before anything is learned from it.

`read_reset` and `read_step` look at the form of a single Gymnasium environment's results; `Guard`
looks at the arrays that every `HostEnv` returns.
"""

from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.types import Choice, EnvSpec, HostStep, Index, Vector

MARGIN = 0.5
"""How far beyond its bounds an entry may lie, in widths of its range. Many environments overshoot a
little, which `check-env` reports; farther out the bounds or the units are wrong, and the agent
would see numbers that its scaling was not made for."""
MORE = "; `devote check-env` shows more"


def read_reset(result: Any) -> tuple[Any, dict]:
    """`(obs, info)`; anything else is refused."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise UserError("reset to return (obs, info)", _form(result), "return obs, {}")
    return result


def read_step(result: Any) -> tuple[Any, Any, bool, bool, dict]:
    """`(obs, reward, terminated, truncated, info)`; anything else is refused."""
    if not isinstance(result, tuple) or len(result) != 5:
        fix = "return obs, reward, terminated, truncated, {}"
        raise UserError("step to return 5 values", _form(result), fix)
    _, reward, terminated, truncated, info = result
    number = np.asarray(reward)
    if number.dtype.kind not in "biuf" or number.ndim != 0:
        got = f"{type(reward).__name__} {number.dtype} of shape {number.shape}"
        raise UserError("reward to be one number", got, "return float(reward)")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if np.asarray(flag).dtype.kind != "b" or np.ndim(flag) != 0:
            got = f"{type(flag).__name__} {flag!r:.40}"
            raise UserError(f"{name} to be True or False", got, f"return bool({name})")
    if not isinstance(info, dict):
        raise UserError("info to be a dict", type(info).__name__, "return {} when there is none")
    return result


def _form(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} values: " + ", ".join(type(value).__name__ for value in result)
    return type(result).__name__


class Guard:
    """Holds environments to their spec; its errors name the environment and the step.

    A `margin` of infinity only asks for finite observations; `rows` is what a batch consists of.
    """

    def __init__(
        self, spec: EnvSpec, margin: float = MARGIN, more: str = MORE, rows: str = "environment"
    ) -> None:
        space = spec.observation
        self.spec, self.margin, self.more, self.rows = spec, margin, more, rows
        self.shape = () if isinstance(space, Index) else (space.size,)
        self.dtype = np.dtype(np.int32 if isinstance(space, Index) else space.dtype)
        self.low, self.high = _limits(space, self.dtype, margin)

    def obs(
        self,
        obs: Any,
        num_envs: int,
        when: str,
        action: np.ndarray | None = None,
        valid: np.ndarray | None = None,
    ) -> None:
        """Check the observations of every environment: shape, type, finite, within bounds."""
        self._require_array("observations", obs, (num_envs, *self.shape), self.dtype, when)
        fits = (obs >= self.low) & (obs <= self.high)  # False for NaN
        if fits.all():
            return
        wrong = ~fits.reshape(num_envs, -1)
        if valid is not None:
            wrong &= valid[:, None]
        if wrong.any():
            env, entry = map(int, np.argwhere(wrong)[0])
            value = obs.reshape(num_envs, -1)[env, entry]
            expected, fix = self._expected(value, entry)
            got = f"{value}{self._where(env, when, action)}"
            raise UserError(expected, got, fix + self.more)

    def step(self, step: HostStep, action: np.ndarray, when: str) -> None:
        """Check everything that a step returns."""
        num_envs = len(action)
        for name in ("terminated", "truncated", "success", "valid"):
            self._require_array(name, getattr(step, name), (num_envs,), np.dtype(bool), when)
        if set(step.terms) != set(self.spec.terms):
            got = f"{sorted(step.terms)} in {when}"
            raise UserError(f"the reward terms {self.spec.terms}", got, f"return them{self.more}")
        for name, values in {"reward": step.reward, **step.terms}.items():
            self._require_array(name, values, (num_envs,), np.dtype(np.float32), when)
            self.finite(name, np.where(step.valid, values, 0), when, action)
        self.obs(step.obs, num_envs, when, action)
        self.obs(step.next_obs, num_envs, when, action, step.valid)

    def finite(self, name: str, values: np.ndarray, when: str, action: np.ndarray | None) -> None:
        """Check one number of each environment, such as a reward."""
        wrong = ~np.isfinite(values)
        if wrong.any():
            env = int(np.argmax(wrong))
            got = f"{values[env]}{self._where(env, when, action)}"
            fix = f"look for a division by 0 or a log of 0{self.more}"
            raise UserError(f"a finite {name}", got, fix)

    def _require_array(
        self, name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype, when: str
    ) -> None:
        if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != dtype:
            kind = type(value).__name__
            if isinstance(value, np.ndarray):
                kind = f"{value.dtype} of shape {value.shape}"
            fix = f"return such an array{self.more}"
            raise UserError(f"{name}: {dtype} of shape {shape}", f"{kind} in {when}", fix)

    def _where(self, env: int, when: str, action: np.ndarray | None) -> str:
        where = f" from {self.rows} {env} of {self.spec.name} in {when}"
        if action is None:
            return where
        if isinstance(self.spec.action, Choice):
            return f"{where} after choice {int(np.argmax(action[env]))}"
        return f"{where} after action {action[env].tolist()}"

    def _expected(self, value: Any, entry: int) -> tuple[str, str]:
        """What an observation should be, and how to fix it."""
        space = self.spec.observation
        if isinstance(space, Index):
            return f"an observation from 0 to {space.size - 1}", "widen the space"
        name = space.names[entry] if space.names else f"entry {entry}"
        if not np.isfinite(value):
            fix = "look for a division by 0 or a diverging simulation"
            return f"finite observations at {name}", fix
        within = "within or near" if self.margin else "within"
        bounds = f"{space.low[entry]:g} to {space.high[entry]:g}"
        fix = "widen the space, or scale what is observed"
        return f"observations at {name} {within} their bounds, {bounds}", fix


def _limits(space: Vector | Index, dtype: np.dtype, margin: float) -> tuple[Any, Any]:
    """The range outside of which an observation is refused."""
    if isinstance(space, Index):
        return 0, space.size - 1
    if dtype.kind != "f":
        return 0, np.iinfo(dtype).max
    most = np.finfo(dtype).max
    if not space.promised or margin == np.inf:
        return -most, most
    low, high = np.asarray(space.low), np.asarray(space.high)
    with np.errstate(invalid="ignore"):
        width = high - low
        near = low - margin * width, high + margin * width
    known = np.isfinite(width)
    return tuple(np.where(known, near[i], (-most, most)[i]).astype(dtype) for i in (0, 1))
