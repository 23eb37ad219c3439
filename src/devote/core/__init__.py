"""What everybody speaks."""

from devote.core.types import (
    Agent,
    Box,
    Choice,
    Env,
    EnvSpec,
    Grid,
    HostEnv,
    HostStep,
    Index,
    Metrics,
    Observation,
    Outcome,
    Transition,
    Vector,
)

__all__ = [
    "Agent",
    "Box",
    "Choice",
    "Env",
    "EnvSpec",
    "Grid",
    "HostEnv",
    "HostStep",
    "Index",
    "Metrics",
    "Observation",
    "Outcome",
    "Transition",
    "Vector",
]
