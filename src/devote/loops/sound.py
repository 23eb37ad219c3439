"""What environments on the host return is looked at before it is learned from."""

from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.types import EnvSpec, HostStep, Index

FIX = "run `devote check-env` on it, and correct the environment"


def require_obs(obs: Any, spec: EnvSpec, num_envs: int, when: str) -> None:
    """Observations of every environment: shape, type, and numbers that can be learned from."""
    if isinstance(spec.observation, Index):
        _require_array("observations", obs, (num_envs,), np.int32, when)
        fits = (obs >= 0) & (obs < spec.observation.size)
        if not fits.all():
            env = int(np.argmin(fits))
            expected = f"an observation from 0 to {spec.observation.size - 1}"
            raise UserError(expected, f"{obs[env]} from environment {env} in {when}", FIX)
        return
    _require_array("observations", obs, (num_envs, spec.observation.size), np.float32, when)
    _require_finite("observation", obs, np.ones(num_envs, bool), when)


def require_step(step: HostStep, action: np.ndarray, spec: EnvSpec, when: str) -> None:
    """Everything that a step gives; refused with the environment, the step and the action."""
    num_envs = len(action)
    for name in ("terminated", "truncated", "success", "valid"):
        _require_array(name, getattr(step, name), (num_envs,), np.bool_, when)
    if set(step.terms) != set(spec.terms):
        raise UserError(f"the reward terms {spec.terms}", f"{sorted(step.terms)} in {when}", FIX)
    for name, values in {"reward": step.reward, **step.terms}.items():
        _require_array(name, values, (num_envs,), np.float32, when)
        _require_finite(name, values, step.valid, when, action)
    require_obs(step.obs, spec, num_envs, when)
    next_obs = step.next_obs if step.valid.all() else _only(step.valid, step.next_obs)
    require_obs(next_obs, spec, num_envs, when)


def _only(valid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values with zeros where they mean nothing."""
    return np.where(valid.reshape(-1, *(1,) * (values.ndim - 1)), values, values.dtype.type(0))


def _require_array(name: str, value: Any, shape: tuple[int, ...], dtype: Any, when: str) -> None:
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != dtype:
        kind = type(value).__name__
        if isinstance(value, np.ndarray):
            kind = f"{value.dtype} of shape {value.shape}"
        raise UserError(f"{name}: {np.dtype(dtype)} of shape {shape}", f"{kind} in {when}", FIX)


def _require_finite(
    name: str, values: np.ndarray, valid: np.ndarray, when: str, action: np.ndarray | None = None
) -> None:
    if np.isfinite(values).all():
        return
    wrong = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1) & valid
    if wrong.any():
        env = int(np.argmax(wrong))
        after = "" if action is None else f" after action {action[env].tolist()}"
        got = f"{values[env].tolist()} from environment {env} in {when}{after}"
        raise UserError(f"a finite {name}", got, FIX)
