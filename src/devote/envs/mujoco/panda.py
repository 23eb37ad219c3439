"""Where the Panda's hand is, for many arms at once; the numbers are those of assets/panda.xml."""

from typing import NamedTuple

import numpy as np

# Of each joint: where it sits in the frame before it, and the quarter turns about x it adds.
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


class Hand(NamedTuple):
    """A hand's place, the direction it points in, and the direction its left finger opens in."""

    position: np.ndarray
    forward: np.ndarray
    side: np.ndarray


def hand(angles: np.ndarray) -> Hand:
    """The hand at joint angles `(batch, 7)`."""
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
