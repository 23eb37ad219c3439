"""The MuJoCo tasks as Gymnasium environments, single and vector; importing registers their ids."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from devote.core.errors import UserError
from devote.core.types import HostStep
from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings
from devote.envs.mujoco.batch import MujocoEnv, Task
from devote.envs.mujoco.cartpole import Cartpole, CartpoleSettings
from devote.envs.mujoco.cheetah import Cheetah, CheetahSettings
from devote.envs.mujoco.pick_and_place import PickAndPlace, PickAndPlaceSettings
from devote.envs.mujoco.rendering import Painter
from devote.envs.vector import INVALID

Settings = CheetahSettings | CartpoleSettings | AntMazeSettings | PickAndPlaceSettings
TASKS: dict[type, Callable[[Any], Task]] = {
    CheetahSettings: Cheetah,
    CartpoleSettings: Cartpole,
    AntMazeSettings: AntMaze,
    PickAndPlaceSettings: PickAndPlace,
}
IDS: dict[str, Settings] = {
    "devote/Cheetah-v0": CheetahSettings(rewards=True),
    "devote/CartpoleSwingup-v0": CartpoleSettings(),
    "devote/CartpoleSwingupSparse-v0": CartpoleSettings(sparse=True),
    "devote/AntMaze-v0": AntMazeSettings(),
    "devote/PickAndPlace-v0": PickAndPlaceSettings(),
}
RENDER_MODES = ("rgb_array",)
SINGLE: dict[str, Any] = {"render_modes": list(RENDER_MODES)}
CHANCE = "chance"
VECTOR = SINGLE | {"autoreset_mode": AutoresetMode.SAME_STEP}


class Worlds:
    """What the single and the vector environment share: physics, randomness and rendering."""

    metadata: dict[str, Any]
    np_random: np.random.Generator

    def _build(
        self, settings: Settings, num_envs: int, threads: int, render_mode: str | None
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise UserError("render_mode None or 'rgb_array'", render_mode, "choose one of them")
        self._worlds = MujocoEnv(TASKS[type(settings)](settings), num_envs, threads)
        self._painter: Painter | None = None
        self.render_mode = render_mode
        self.metadata = self.metadata | {"render_fps": round(1 / self._worlds.task.step_time)}
        self.max_episode_steps = self._worlds.spec.episode_length

    def save_state(self) -> dict[str, np.ndarray]:
        """Everything that changes, the random generator included."""
        return self._worlds.save() | {CHANCE: generator_words(self.np_random)}

    def load_state(self, saved: dict[str, np.ndarray]) -> None:
        """Go on, bit for bit, from what `save_state` gave."""
        self._worlds.restore(saved)
        set_generator(self.np_random, saved[CHANCE])

    def render(self) -> Any:
        """Every world as it is now."""
        if self.render_mode is None:
            return None
        self._painter = self._painter or Painter(self._worlds.task.model)
        return tuple(map(self._painter.frame, self._worlds.physics.qpos))

    def close_extras(self, **kwargs: Any) -> None:
        """Release what rendering holds."""
        if self._painter is not None:
            self._painter.close()
            self._painter = None


class MujocoGymEnv(Worlds, gymnasium.Env):
    """One world; it limits its own time, without `TimeLimit`."""

    metadata = SINGLE

    def __init__(self, settings: Settings, render_mode: str | None = None) -> None:
        self._build(settings, 1, 1, render_mode)
        self.observation_space, self.action_space = _spaces(self._worlds)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        return self._worlds.reset(_chance(self.np_random))[0].copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One decision; the caller resets ended episodes."""
        step = self._worlds.step(_fitting(action, self.action_space)[None], None)
        info: dict[str, Any] = {}
        if self._worlds.spec.says_success:
            info["is_success"] = bool(step.success[0])
        if step.terms:
            info["reward_terms"] = {name: float(term[0]) for name, term in step.terms.items()}
        if not step.valid[0]:
            info[INVALID] = True
        ends = bool(step.terminated[0]), bool(step.truncated[0])
        return step.next_obs[0].copy(), float(step.reward[0]), *ends, info

    def render(self) -> np.ndarray | None:
        """The world as it is now."""
        pictures = super().render()
        return None if pictures is None else pictures[0]

    close = Worlds.close_extras


class MujocoVectorEnv(Worlds, VectorEnv):
    """Many worlds in one native call; ended episodes are reset in the same step."""

    metadata = VECTOR

    def __init__(
        self,
        settings: Settings,
        num_envs: int = 1,
        threads: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self._build(settings, num_envs, threads, render_mode)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(self._worlds)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start every episode afresh."""
        super().reset(seed=seed)
        return self._worlds.reset(_chance(self.np_random)).copy(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One decision in every world; `final_obs` holds the successors that a reset replaced."""
        taken = _fitting(actions, self.action_space)
        step = self._worlds.step(taken, _chance(self.np_random))
        info = self._info(step)
        ended = step.terminated | step.truncated
        if ended.any():
            final = np.full(self.num_envs, None, object)
            for row in np.flatnonzero(ended):
                final[row] = step.next_obs[row].copy()
            info |= {"final_obs": final, "final_info": self._info(step)}
            info |= {"_final_obs": ended, "_final_info": ended}
        return step.obs.copy(), step.reward, step.terminated, step.truncated, info

    def _info(self, step: HostStep) -> dict[str, Any]:
        every = np.ones(self.num_envs, bool)
        info: dict[str, Any] = {}
        if self._worlds.spec.says_success:
            info |= {"is_success": step.success, "_is_success": every}
        if step.terms:
            masks = {f"_{name}": every for name in step.terms}
            info |= {"reward_terms": {**step.terms, **masks}, "_reward_terms": every}
        if not step.valid.all():
            info |= {INVALID: ~step.valid, f"_{INVALID}": ~step.valid}
        return info


def register_envs() -> None:
    """Register the ids with Gymnasium, where they are not yet."""
    for name, settings in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"{__name__}:{MujocoGymEnv.__name__}",
                vector_entry_point=f"{__name__}:{MujocoVectorEnv.__name__}",
                kwargs={"settings": settings},
            )


def _spaces(worlds: MujocoEnv) -> tuple[Box, Box]:
    """Unbounded observations: the ranges in the task's spec are only the usual ones."""
    size = worlds.spec.observation.size
    return (
        Box(-np.inf, np.inf, (size,), np.float32),
        Box(-1.0, 1.0, (worlds.spec.action.size,), np.float32),
    )


def _fitting(action: Any, space: Space) -> np.ndarray:
    """The action as an array of the right shape; NumPy would broadcast a single number."""
    array = np.asarray(action)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        got = f"{array.dtype} of shape {array.shape}"
        raise UserError(f"numbers of shape {space.shape} as action", got, "see action_space")
    if not np.isfinite(array).all():
        raise UserError("a finite action", array.tolist(), "check the policy that chose it")
    return array


def _chance(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(2**32, size=2, dtype=np.uint32)


def generator_words(generator: np.random.Generator) -> np.ndarray:
    """The state of a generator of NumPy's default kind, as unsigned integers."""
    state: Any = generator.bit_generator.state
    raw = b"".join(state["state"][name].to_bytes(16, "little") for name in ("state", "inc"))
    rest = np.array([state["has_uint32"], state["uinteger"]], np.uint32)
    return np.append(np.frombuffer(raw, "<u4"), rest)


def set_generator(generator: np.random.Generator, words: np.ndarray) -> None:
    """Go on from what `generator_words` gave."""
    raw = words[:8].astype("<u4").tobytes()
    state, increment = (int.from_bytes(part, "little") for part in (raw[:16], raw[16:]))
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": int(words[8]),
        "uinteger": int(words[9]),
    }


register_envs()
