"""PickAndPlace: a Panda holds a cube and is rewarded for lifting it; the goal is elsewhere."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from devote.core.settings import EpisodeLength, NonNegative
from devote.core.types import Box, EnvSpec, Vector
from devote.envs.bins import BoxBins
from devote.envs.mujoco.batch import Physics, StepResult, asset, load

SUBSTEPS = 10  # of 0.005 s per decision
CUBE = np.array([-0.25, 0.65, 0.07])
GOAL = np.array([0.425, 0.65, 0.30])
GOAL_RADIUS = 0.05
REST, LIFT = 0.03, 0.12  # height of a cube on the table, and how much higher the reward still grows
HELD = 0.12  # distance of a held cube from the middle of the fingers' origins
CONTROL_COST, LOST_COST, SUCCESS = 0.1, 0.5, 1250.0
ARM_NOISE, CUBE_NOISE = 0.002, 0.001  # half widths, radians and metres
FINGER_START = 0.028  # a little less than half the cube's side
LEAK = 0.75  # how far commands fall back to the present angles in a decision
OPEN = 255.0  # the fingers' largest command
# The hand points down, pads on two faces of the cube.
GRASP = (1.93797016, 0.77526273, 0.0, -1.58811565, 0.0, 2.36337838, 1.15257196)
# Their inverse kinematics for fingers' origins in the cube's centre, in any direction.
AUTHORS_START = (1.314009, 1.036391, 0.663898, -1.621713, 0.210156, 2.559949, 0.0)
AUTHORS_GAINS = (4500.0, 4500.0, 2000.0, 2000.0, 1000.0, 1000.0, 1000.0)
BINS = BoxBins((-0.55, 0.35, 0.05), (0.55, 0.95, 0.45), (24, 24, 24), labels=("x", "y", "z"))
TERMS = ("lift", "held", "control", "success")
# The Panda's arm, as in assets/panda.xml.
# Of each joint: its place in the frame before it, and the quarter turns about x that it adds.
JOINTS = (
    ((0.0, 0.0, 0.333), 0),
    ((0.0, 0.0, 0.0), -1),
    ((0.0, -0.316, 0.0), 1),
    ((0.0825, 0.0, 0.0), 1),
    ((-0.0825, 0.384, 0.0), -1),
    ((0.0, 0.0, 0.0), 1),
    ((0.088, 0.0, 0.0), 1),
)
FLANGE = 0.107  # from the last joint to the hand, along the hand
FINGERS = 0.0584  # from the hand to the fingers' origins
CUBE_SEEN, FINGERS_SEEN = slice(21, 24), slice(17, 19)  # in an observation


@dataclass(frozen=True)
class PickAndPlaceSettings:
    """The paper's task; numbers that it does not give are those of the authors' code."""

    episode_length: EpisodeLength = 250
    """Decisions of 0.05 s until the time limit."""
    action_scale: NonNegative = 0.05
    """Radians that an action of 1 adds to a joint's command."""
    true_grasp: bool = True
    """Start with the cube between the pads; from the authors' start it mostly slips out."""
    holding_gains: bool = True
    """Motors that hold the commanded angle; the authors' j3 to j7 aim at about half of it."""


def as_authors(settings: PickAndPlaceSettings) -> PickAndPlaceSettings:
    """A start that is no grasp, and gains that do not fit the stiffness."""
    return replace(settings, true_grasp=False, holding_gains=False)


class PickAndPlace:
    """Arm, hand, fingers, cube and goal are observed; seven joints and the gripper are moved."""

    def __init__(self, settings: PickAndPlaceSettings) -> None:
        self.settings = settings
        self.model = load(asset("panda.xml"))
        if not settings.holding_gains:
            self.model.actuator_gainprm[:7, 0] = AUTHORS_GAINS
        self.step_time = SUBSTEPS * self.model.opt.timestep
        self._arm = np.array(GRASP if settings.true_grasp else AUTHORS_START)
        self._limits = self.model.actuator_ctrlrange[:7].T
        self.spec = EnvSpec(
            name="pick_and_place",
            observation=self._space(),
            action=Box(8),
            episode_length=settings.episode_length,
            grid=BINS.grid(),
            terms=TERMS,
            says_success=True,
        )

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """The cube in the hand, both at rest."""
        noise = rng.uniform(-1.0, 1.0, (len(physics.qpos), 9))[rows]
        arm = self._arm + ARM_NOISE * noise[:, :7]
        physics.qpos[rows, :7] = arm
        physics.qpos[rows, 7:9] = FINGER_START
        physics.qpos[rows, 9:11] = CUBE[:2] + CUBE_NOISE * noise[:, 7:]
        physics.ctrl[rows, :7] = arm

    def act(self, physics: Physics, action: np.ndarray) -> StepResult:
        """Move the commands relative to the joint angles; open or close the gripper."""
        command = (1 - LEAK) * physics.ctrl[:, :7] + LEAK * physics.qpos[:, :7]
        command += self.settings.action_scale * action[:, :7]
        physics.ctrl[:, :7] = np.clip(command, *self._limits)
        physics.ctrl[:, 7:] = OPEN * (1 + action[:, 7:]) / 2
        physics.advance(SUBSTEPS)
        return self.result(physics.qpos, action)

    def result(self, qpos: np.ndarray, action: np.ndarray) -> StepResult:
        """The reward of arriving in a state."""
        cube = qpos[:, 9:12]
        held = np.linalg.norm(grip(qpos[:, :7], qpos[:, 7:9]) - cube, axis=1) < HELD
        success = np.linalg.norm(cube - GOAL, axis=1) < GOAL_RADIUS
        terms = {
            "lift": 2 * np.clip(cube[:, 2] - REST, 0, LIFT) / LIFT - 1,
            "held": -LOST_COST * ~held,
            "control": -CONTROL_COST * np.sum(action**2, axis=1),
            "success": SUCCESS * success,
        }
        return StepResult(sum(terms.values(), np.zeros(len(qpos))), success, success, terms)

    def observe(self, physics: Physics) -> np.ndarray:
        """Arm angles and velocities, hand, finger positions and velocities, cube, goal."""
        qpos, qvel = physics.qpos, physics.qvel
        place = hand(qpos[:, :7]).position
        goal = np.broadcast_to(GOAL, place.shape)
        parts = [qpos[:, :7], qvel[:, :7], place, qpos[:, 7:9], qvel[:, 7:9], qpos[:, 9:12], goal]
        return np.concatenate(parts, axis=1)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """Bins of the cube while it is held."""
        cube = obs[:, CUBE_SEEN]
        held = np.linalg.norm(grip(obs[:, :7], obs[:, FINGERS_SEEN]) - cube, axis=1) < HELD
        return np.where(held, BINS.of(cube), -1)

    def _space(self) -> Vector:
        low_arm, high_arm = self.model.jnt_range[:7].T
        low = (*low_arm, *[-2.5] * 7, -0.8, -0.2, 0.0, 0.0, 0.0, -0.5, -0.5)
        high = (*high_arm, *[2.5] * 7, 0.8, 1.0, 1.2, 0.05, 0.05, 0.5, 0.5)
        room = ((-0.8, -0.2, 0.0), (0.8, 1.2, 1.2))  # where the cube, and a goal, may be
        low, high = (*low, *room[0] * 2), (*high, *room[1] * 2)
        return Vector(tuple(map(float, low)), tuple(map(float, high)))


class Hand(NamedTuple):
    """The position of a hand, and the directions in which it and its left finger point."""

    position: np.ndarray
    forward: np.ndarray
    side: np.ndarray


def hand(angles: np.ndarray) -> Hand:
    """Forward kinematics of joint angles `(batch, 7)`."""
    x, y, z = (np.tile(axis, (len(angles), 1)) for axis in np.eye(3))
    position = np.zeros((len(angles), 3))
    cosines, sines = np.cos(angles), np.sin(angles)
    for joint, ((along_x, along_y, along_z), turn) in enumerate(JOINTS):
        position = position + along_x * x + along_y * y + along_z * z
        if turn:
            y, z = turn * z, -turn * y
        cosine, sine = cosines[:, joint, None], sines[:, joint, None]
        x, y = cosine * x + sine * y, cosine * y - sine * x
    return Hand(position + FLANGE * z, z, (x + y) * np.sqrt(0.5))


def grip(angles: np.ndarray, fingers: np.ndarray) -> np.ndarray:
    """The middle between the origins of the two fingers, `fingers` metres open each."""
    at = hand(angles)
    off_centre = (fingers[:, :1] - fingers[:, 1:]) / 2
    return at.position + FINGERS * at.forward + off_centre * at.side
