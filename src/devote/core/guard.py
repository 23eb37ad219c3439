"""The one look at what environments on the host return, before anything is learned from it."""

from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.types import Choice, EnvSpec, HostStep, Index, Vector

FAR = 0.5
"""How far beyond a bound that the task promised an entry may lie, in widths of its range. Many
environments overshoot their bounds a little, which `check-env` reports; farther out the bounds, or
the units, are wrong, and the agent would see numbers that its scaling was not made for."""
MORE = "; `devote check-env` shows more"


class Guard:
    """Holds environments to their spec; what it refuses names the environment and the step."""

    def __init__(self, spec: EnvSpec, bounds: bool = True, more: str = MORE) -> None:
        space = spec.observation
        self.spec, self.more = spec, more
        self.shape = () if isinstance(space, Index) else (space.size,)
        self.dtype = np.dtype(np.int32 if isinstance(space, Index) else space.dtype)
        self.low, self.high = _limits(space, self.dtype, bounds)

    def obs(
        self,
        obs: Any,
        num_envs: int,
        when: str,
        action: np.ndarray | None = None,
        valid: np.ndarray | None = None,
    ) -> None:
        """Observations of every environment: shape, type, and numbers that can be learned from."""
        self._require_array("observations", obs, (num_envs, *self.shape), self.dtype, when)
        fits = (obs >= self.low) & (obs <= self.high)  # not so for NaN
        if fits.all():
            return
        wrong = ~fits.reshape(num_envs, -1)
        if valid is not None:
            wrong &= valid[:, None]
        if wrong.any():
            env, entry = map(int, np.argwhere(wrong)[0])
            value = obs.reshape(num_envs, -1)[env, entry]
            got = f"{value} from environment {env} in {when}{self._after(action, env)}"
            raise UserError(*self._expected(value, entry, got))

    def step(self, step: HostStep, action: np.ndarray, when: str) -> None:
        """Everything that a step gives."""
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
        """One number of each environment, such as a reward."""
        wrong = ~np.isfinite(values)
        if wrong.any():
            env = int(np.argmax(wrong))
            got = f"{values[env]} from environment {env} in {when}{self._after(action, env)}"
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

    def _after(self, action: np.ndarray | None, env: int) -> str:
        if action is None:
            return ""
        if isinstance(self.spec.action, Choice):
            return f" after choice {int(np.argmax(action[env]))}"
        return f" after action {action[env].tolist()}"

    def _expected(self, value: Any, entry: int, got: str) -> tuple[str, str, str]:
        space = self.spec.observation
        if isinstance(space, Index):
            return f"an observation from 0 to {space.size - 1}", got, f"widen the space{self.more}"
        name = space.names[entry] if space.names else f"entry {entry}"
        if not np.isfinite(value):
            fix = f"look for a division by 0 or a diverging simulation{self.more}"
            return f"finite observations at {name}", got, fix
        bounds = f"{space.low[entry]:g} to {space.high[entry]:g}"
        expected = f"observations at {name} within or near their bounds, {bounds}"
        return expected, got, f"widen the space, or scale what is observed{self.more}"


def _limits(space: Vector | Index, dtype: np.dtype, bounds: bool) -> tuple[Any, Any]:
    """What no sound observation lies beyond."""
    if isinstance(space, Index):
        return 0, space.size - 1
    if dtype.kind != "f":  # bytes are always bytes
        return 0, np.iinfo(dtype).max
    most = np.finfo(dtype).max
    if not (space.promised and bounds):
        return -most, most
    low, high = np.asarray(space.low), np.asarray(space.high)
    with np.errstate(invalid="ignore"):
        width = high - low
    return tuple(
        np.where(np.isfinite(width), limit, end).astype(dtype)
        for limit, end in ((low - FAR * width, -most), (high + FAR * width, most))
    )
