"""A recurrent state-space model: what a latent state becomes, and what an observation says of it.

The state has a deterministic part (`memory`, the state of a gated recurrent unit) and a stochastic
one (`code`, groups of one-hot variables). The prior predicts the next code from the memory alone,
the posterior also from an embedding of what was observed (DreamerV3).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from devote.core.trees import where
from devote.nets.layers import Dense, RmsNorm, fan_in_normal

Logits = Float[Array, "*batch groups classes"]


def mixed(logits: Logits, uniform: float) -> Logits:
    """Probabilities with a share of the uniform distribution in them, so that none is ever 0."""
    return (1 - uniform) * jax.nn.softmax(logits) + uniform / logits.shape[-1]


def draw(probs: Logits, chance: Float[Array, "*batch groups"]) -> Logits:
    """One-hot draws, by where uniform numbers fall; their gradient is that of the probabilities."""
    # the last class takes what rounding leaves over
    below = jnp.cumsum(probs, axis=-1)[..., :-1] < chance[..., None]
    drawn = jax.nn.one_hot(below.sum(axis=-1), probs.shape[-1])
    return jax.lax.stop_gradient(drawn - probs) + probs


def divergence(probs: Logits, from_probs: Logits) -> Float[Array, "*batch"]:
    """KL(probs || from_probs), summed over the groups."""
    return jnp.sum(probs * (jnp.log(probs) - jnp.log(from_probs)), axis=(-2, -1))


class Latent(NamedTuple):
    """A state of the model."""

    memory: Float[Array, "*batch memory"]
    code: Logits

    @property
    def features(self) -> Float[Array, "*batch features"]:
        """Both parts side by side, for heads to read."""
        code = self.code.reshape(*self.code.shape[:-2], -1)
        return jnp.concatenate([self.memory, code], axis=-1)


class Path(NamedTuple):
    """Along a sequence: the filtered states, and prior and posterior of their codes."""

    after: Latent
    prior: Logits
    posterior: Logits


class Stack(eqx.Module):
    """Dense layers, each followed by RMS norm and SiLU."""

    layers: tuple[Dense, ...]
    norms: tuple[RmsNorm, ...]

    def __init__(self, key: PRNGKeyArray, size_in: int, widths: tuple[int, ...]):
        sizes = zip(
            jax.random.split(key, len(widths)), (size_in, *widths[:-1]), widths, strict=True
        )
        self.layers = tuple(Dense(layer_key, a, b) for layer_key, a, b in sizes)
        self.norms = tuple(RmsNorm(jnp.ones(width)) for width in widths)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = jax.nn.silu(norm(layer(x)))
        return x


class Head(eqx.Module):
    """A stack and a dense output, which starts at 0 unless it is given a gain."""

    stack: Stack
    out: Dense

    def __init__(
        self,
        key: PRNGKeyArray,
        size_in: int,
        widths: tuple[int, ...],
        size_out: int,
        gain: float = 0.0,
    ):
        stack_key, out_key = jax.random.split(key)
        self.stack = Stack(stack_key, size_in, widths)
        self.out = Dense(out_key, widths[-1], size_out, gain)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return self.out(self.stack(x))


class BlockDense(eqx.Module):
    """An affine map of each of several blocks of the input; a dense layer where there is one."""

    weight: Float[Array, "blocks in out"]
    bias: Float[Array, "blocks out"]

    def __init__(self, key: PRNGKeyArray, blocks: int, size_in: int, size_out: int):
        self.weight = fan_in_normal(key, (blocks, size_in, size_out), size_in)
        self.bias = jnp.zeros((blocks, size_out))

    def __call__(self, x: Float[Array, "*batch blocks in"]) -> Float[Array, "*batch blocks out"]:
        return jnp.einsum("...gi,gio->...go", x, self.weight) + self.bias


class Gru(eqx.Module):
    """A gated recurrent unit whose memory is cut into blocks that meet only in its inputs."""

    memory_in: Stack
    code_in: Stack
    action_in: Stack
    mix: BlockDense
    norm: RmsNorm
    gates: BlockDense
    blocks: int = eqx.field(static=True)

    def __init__(
        self, key: PRNGKeyArray, memory: int, code: int, action: int, width: int, blocks: int
    ):
        memory_key, code_key, action_key, mix_key, gates_key = jax.random.split(key, 5)
        block = memory // blocks
        self.memory_in = Stack(memory_key, memory, (width,))
        self.code_in = Stack(code_key, code, (width,))
        self.action_in = Stack(action_key, action, (width,))
        self.mix = BlockDense(mix_key, blocks, block + 3 * width, block)
        self.norm = RmsNorm(jnp.ones(memory))
        self.gates = BlockDense(gates_key, blocks, block, 3 * block)
        self.blocks = blocks

    def __call__(
        self, state: Latent, action: Float[Array, "*batch width"]
    ) -> Float[Array, "*batch memory"]:
        """The next memory; `action` has already gone through `action_in`."""
        lead = state.memory.shape[:-1]
        blocked = state.memory.reshape(*lead, self.blocks, -1)
        code = self.code_in(state.code.reshape(*lead, -1))
        shared = jnp.concatenate([self.memory_in(state.memory), code, action], axis=-1)
        shared = jnp.broadcast_to(shared[..., None, :], (*lead, self.blocks, shared.shape[-1]))
        mixed_in = self.mix(jnp.concatenate([blocked, shared], axis=-1)).reshape(*lead, -1)
        hidden = jax.nn.silu(self.norm(mixed_in)).reshape(blocked.shape)
        reset, candidate, update = jnp.split(self.gates(hidden), 3, axis=-1)
        candidate = jnp.tanh(jax.nn.sigmoid(reset) * candidate)
        update = jax.nn.sigmoid(update - 1)  # starts by remembering
        return (update * candidate + (1 - update) * blocked).reshape(state.memory.shape)


class Rssm(eqx.Module):
    """Memory, and the networks of prior (`foresight`) and posterior (`hindsight`)."""

    gru: Gru
    foresight: Head
    hindsight: Head
    memory: int = eqx.field(static=True)
    groups: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    uniform: float = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        *,
        memory: int,
        groups: int,
        classes: int,
        width: int,
        blocks: int,
        uniform: float,
        action: int,
        embedding: int,
    ):
        gru_key, prior_key, posterior_key = jax.random.split(key, 3)
        code = groups * classes
        self.gru = Gru(gru_key, memory, code, action, width, blocks)
        self.foresight = Head(prior_key, memory, (width, width), code, gain=1.0)
        self.hindsight = Head(posterior_key, memory + embedding, (width,), code, gain=1.0)
        self.memory, self.groups, self.classes = memory, groups, classes
        self.uniform = uniform

    def _probs(self, outputs: Float[Array, "*batch code"]) -> Logits:
        return mixed(outputs.reshape(*outputs.shape[:-1], self.groups, self.classes), self.uniform)

    def prior(self, memory: Float[Array, "*batch memory"]) -> Logits:
        """Probabilities of the code before anything is observed."""
        return self._probs(self.foresight(memory))

    def posterior(
        self, memory: Float[Array, "*batch memory"], embedding: Float[Array, "*batch embedding"]
    ) -> Logits:
        """Probabilities of the code given what was observed."""
        return self._probs(self.hindsight(jnp.concatenate([memory, embedding], axis=-1)))

    def start(self, embedding: Float[Array, "*batch embedding"], key: PRNGKeyArray) -> Latent:
        """The state at a first observation: no memory yet."""
        memory = jnp.zeros((*embedding.shape[:-1], self.memory))
        chance = jax.random.uniform(key, (*embedding.shape[:-1], self.groups))
        return Latent(memory, draw(self.posterior(memory, embedding), chance))

    def observe(
        self,
        embedding: Float[Array, "time batch embedding"],
        next_embedding: Float[Array, "time batch embedding"],
        action: Float[Array, "time batch action"],
        first: Bool[Array, "time batch"],
        key: PRNGKeyArray,
    ) -> Path:
        """Filter sequences of steps; the state starts anew at each `first` and at time 0."""
        start_key, draw_key = jax.random.split(key)
        starts = self.start(embedding, start_key)
        chance = jax.random.uniform(draw_key, (*first.shape, self.groups))

        def step(state: Latent, inputs: Any) -> tuple[Latent, tuple[Latent, Logits]]:
            begin, opens, acted, seen, luck = inputs
            memory = self.gru(where(opens, begin, state), acted)
            posterior = self.posterior(memory, seen)
            after = Latent(memory, draw(posterior, luck))
            return after, (after, posterior)

        begins = jax.tree.map(lambda x: x[0], starts)
        inputs = (starts, first, self.gru.action_in(action), next_embedding, chance)
        _, (after, posterior) = jax.lax.scan(step, begins, inputs)
        return Path(after, self.prior(after.memory), posterior)

    def imagine(
        self, state: Latent, action: Float[Array, "time batch action"], key: PRNGKeyArray
    ) -> Latent:
        """The states that follow a state when only the actions are known."""
        chance = jax.random.uniform(key, (*action.shape[:-1], self.groups))

        def step(state: Latent, inputs: tuple[Array, Array]) -> tuple[Latent, Latent]:
            acted, luck = inputs
            memory = self.gru(state, acted)
            after = Latent(memory, draw(self.prior(memory), luck))
            return after, after

        return jax.lax.scan(step, state, (self.gru.action_in(action), chance))[1]
