"""The loss of a Dreamer-style world model, one time step after the other (docs/agents.md)."""

import jax
import numpy as np

from reference.nets import (
    cross_entropy,
    dense,
    first_layer,
    rms_norm,
    silu,
    softmax,
    softplus,
    symlog,
    two_hot,
)
from reference.tape import concatenate, log, maximum, sigmoid, tanh, value


def stack(net, x):
    """Dense layers, each followed by RMS norm and SiLU."""
    for i, layer in net["layers"].items():
        x = silu(rms_norm(net["norms"][i], dense(layer, x)))
    return x


def head(net, x):
    """A stack and an output."""
    return dense(net["out"], stack(net["stack"], x))


def embed(net, seen):
    """A stack on observations in symlog units."""
    x = seen if seen.ndim == 1 else symlog(seen)
    return stack(net["stack"], silu(rms_norm(net["norm"], first_layer(net["first"], x, None))))


def next_memory(gru, memory, code, action):
    """A gated recurrent unit in blocks. A block reads itself and, through a layer each, the whole
    of memory, code and action."""
    blocks, size = gru["mix"]["bias"].shape
    parts = [memory[:, i * size : (i + 1) * size] for i in range(blocks)]
    inputs = {"memory_in": memory, "code_in": code, "action_in": action}
    shared = concatenate([stack(gru[name], x) for name, x in inputs.items()])

    def affine(layer, i, x):
        return x @ gru[layer]["weight"][i] + gru[layer]["bias"][i]

    mixed = [affine("mix", i, concatenate([part, shared])) for i, part in enumerate(parts)]
    hidden = silu(rms_norm(gru["norm"], concatenate(mixed)))
    new = []
    for i, part in enumerate(parts):
        gates = affine("gates", i, hidden[:, i * size : (i + 1) * size])
        reset, candidate, update = (gates[:, j * size : (j + 1) * size] for j in range(3))
        candidate, update = tanh(sigmoid(reset) * candidate), sigmoid(update - 1)
        new.append(update * candidate + (1 - update) * part)
    return concatenate(new)


def draw(probs, luck):
    """The class in whose part of [0, 1] a uniform number falls, with the slope of `probs`."""
    plain = value(probs)
    drawn = (plain.cumsum(axis=-1)[..., :-1] < luck[..., None]).sum(axis=-1)
    return np.eye(plain.shape[-1])[drawn] - plain + probs


def divergence(p, q):
    """KL(p || q), summed over groups."""
    return (p * (log(p) - log(q))).sum(axis=-1).sum(axis=-1)


def world_model_loss(model, settings, see, batch, length, key):
    """Loss on runs of `length` steps, and for every step of the batch the embedding of its
    observation and the code that it led to."""
    s, rssm = settings, model["rssm"]
    runs = len(batch.reward) // length
    luck = [
        np.asarray(jax.random.uniform(k, (length, runs, s.code_groups)))
        for k in jax.random.split(key)
    ]

    def probs(outputs):
        logits = outputs.reshape(runs, s.code_groups, s.code_classes)
        return (1 - s.uniform_mix) * softmax(logits) + s.uniform_mix / s.code_classes

    def posterior(memory, embedding):
        return probs(head(rssm["hindsight"], concatenate([memory, embedding])))

    nothing = np.zeros((runs, s.memory_size))
    memory, code, loss, embeddings, codes = nothing, None, 0.0, [], []
    for t in range(length):
        now = type(batch)(*(x.reshape(runs, length, *x.shape[1:])[:, t] for x in batch))
        embedding = embed(model["encoder"], see(now.obs))
        start = draw(posterior(nothing, embedding), luck[0][t])
        opens = now.first[:, None].astype(float) if t else np.ones((runs, 1))
        memory = (1 - opens) * memory
        code = start if t == 0 else opens[..., None] * start + (1 - opens)[..., None] * code
        memory = next_memory(rssm["gru"], memory, code.reshape(runs, -1), now.action)
        after = posterior(memory, embed(model["encoder"], see(now.next_obs)))
        before = probs(head(rssm["foresight"], memory))
        code = draw(after, luck[1][t])
        features = concatenate([memory, code.reshape(runs, -1)])
        going_on = head(model["continuation"], features)[:, 0]
        terms = (
            decoding(head(model["decoder"], features), now.next_obs)
            + cross_entropy(head(model["reward"], features), two_hot(now.reward))
            + softplus(going_on)  # minus the log-likelihood of a Bernoulli variable
            - now.discount * going_on
            + s.dynamics_weight * maximum(divergence(value(after), before), s.free_nats)
            + s.representation_weight * maximum(divergence(after, value(before)), s.free_nats)
        )
        loss = loss + terms.mean() / length
        embeddings.append(value(embedding))
        codes.append(value(code))
    return loss, *(np.concatenate(np.stack(x, axis=1)) for x in (embeddings, codes))


def decoding(out, obs):
    """A squared error in symlog units, or the cross-entropy of an index."""
    if obs.ndim == 1:
        return cross_entropy(out, np.eye(out.shape[-1])[obs])
    return ((out - symlog(obs)) ** 2).sum(axis=-1)
