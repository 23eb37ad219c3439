"""What is not known of a step: a world model, and an ensemble that predicts its view of steps."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.world_model import WorldModel, WorldModelSettings, in_time, world_model_loss
from devote.core.errors import UserError
from devote.core.learning import Learned, Learner, Optimiser
from devote.core.settings import Count, Few, NonNegative, Positive
from devote.core.types import Index, Metrics, Observation, Transition
from devote.epistemic.disagreement import (
    Guess,
    Guesser,
    Standards,
    disagreement,
    guessing_loss,
    pooled,
    standardised,
    standards,
)
from devote.nets.encoder import Encoder
from devote.nets.ensemble import Ensemble
from devote.nets.layers import Lookup


@dataclass(frozen=True)
class UncertaintySettings:
    """World model and disagreement ensemble; defaults are the authors' code."""

    model: WorldModelSettings = field(default_factory=WorldModelSettings)
    sequence_length: Count = 64
    """Consecutive steps of one environment that the world model learns from."""
    num_guessers: Count = 5
    """Members of the disagreement ensemble."""
    guesser_width: Count = 192
    """Units in each hidden layer of a member."""
    guesser_depth: Few = 2
    """Hidden layers of a member."""
    guesser_length: NonNegative = 0.0
    """Length scale of the Fourier features that the ensemble sees; 0 for what critics see."""
    embedding_size: Count = 32
    """Entries of the pooled embedding that the ensemble predicts; a divisor of model_width."""
    model_rate: Positive = 4e-5
    """Learning rate of world model and ensemble."""

    def __post_init__(self) -> None:
        if self.embedding_size < 1 or self.model.model_width % self.embedding_size:
            raise UserError(
                f"an embedding_size that divides the model_width {self.model.model_width}",
                self.embedding_size,
                "change --embedding-size or --model-width",
            )


class Beliefs(NamedTuple):
    """All that changes, and the number of every row."""

    model: Learner
    guessers: Learner
    standards: Standards
    numbers: Lookup | None
    """For an index: what the model decodes. Where tables hold only some rows (`agents/by_rows.py`),
    this one says which."""


@dataclass(frozen=True)
class ModelUncertainty:
    """World model and ensemble of a task, seen through the encoder that critics use, the ensemble
    with features of its own length if it has one."""

    settings: UncertaintySettings
    encoder: Encoder
    action_size: int
    action_gain: float
    optimiser_kind: Literal["adam", "laprop"]

    @cached_property
    def optimiser(self) -> Optimiser:
        return Optimiser(self.settings.model_rate, kind=self.optimiser_kind)

    @cached_property
    def guesser_encoder(self) -> Encoder:
        """What the ensemble sees: features as long as a corridor hide differences within a step."""
        length = self.settings.guesser_length
        if not length:
            return self.encoder
        if not self.encoder.features:
            raise UserError(
                "input_features above 0 beside a guesser_length",
                self.encoder.features,
                "set --input-features, or --guesser-length 0",
            )
        return replace(self.encoder, length=length)

    def init(self, key: PRNGKeyArray) -> Beliefs:
        """A fresh model and a fresh ensemble."""
        model_key, guess_key = jax.random.split(key)
        s, model = self.settings, self.settings.model
        sizes = (s.embedding_size, model.code_groups, model.code_classes)
        hidden = (s.guesser_width,) * s.guesser_depth

        def build(member_key: PRNGKeyArray) -> Guesser:
            return Guesser(
                member_key, self.guesser_encoder, self.action_size, hidden, sizes, self.action_gain
            )

        space = self.encoder.space
        numbers = Lookup(jnp.arange(space.size)[:, None]) if isinstance(space, Index) else None
        net = WorldModel(model_key, model, self.encoder, self.action_size)
        return Beliefs(
            self.optimiser.start(net),
            self.optimiser.start(Ensemble(guess_key, s.num_guessers, build)),
            standards(s.embedding_size),
            numbers,
        )

    @property
    def learned(self) -> tuple[Learned, ...]:
        """The model and the ensemble."""
        return (
            Learned(lambda beliefs: beliefs.model, self.optimiser),
            Learned(lambda beliefs: beliefs.guessers, self.optimiser),
        )

    def learn(
        self, beliefs: Beliefs, batch: Transition, key: PRNGKeyArray
    ) -> tuple[Beliefs, Float[Array, "batch"], Metrics]:
        """One step of the model on the batch's runs and of the ensemble on their steps; in between,
        how much the ensemble disagreed about them."""
        s, truth = self.settings, batch.next_obs
        if beliefs.numbers is not None:
            truth = beliefs.numbers(truth)[..., 0]
        steps, aim = in_time((batch, truth), s.sequence_length)
        model, labels = self.optimiser.descend(
            beliefs.model, world_model_loss, s.model, steps, aim, key
        )
        seen = Guess(pooled(labels.embedding, s.embedding_size), labels.code, batch.reward)
        scale = beliefs.standards.follow(seen.embedding, seen.reward)
        guessers, (metrics, disagreed) = self.optimiser.descend(
            beliefs.guessers, guessing_loss, batch.obs, batch.action, standardised(seen, scale)
        )
        return Beliefs(model, guessers, scale, beliefs.numbers), disagreed, labels.metrics | metrics

    def __call__(self, beliefs: Beliefs, obs: Observation, action: Array) -> Float[Array, "batch"]:
        """The ensemble's disagreement, SOMBRL's intrinsic reward."""
        return disagreement(beliefs.guessers.net, obs, action)
