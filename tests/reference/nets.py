"""Networks as functions of nested dictionaries of weights.

Weights may carry a leading index axis; then so do the results. That is all there is to an ensemble.
"""

import jax
import numpy as np

from reference.tape import absolute, cos, exp, log, maximum, sigmoid, tanh, value

# a categorical over 255 values; the implementation keeps them in single precision
HALF = np.expm1(np.linspace(0, 20, 128))
BINS = np.concatenate([-HALF[:0:-1], HALF]).astype(np.float32).astype(np.float64)


def view(space, obs, scaled, features=0, length=1.0):
    """An observation scaled by its range, joined by fixed cosines (drawn by generator 0), or raw.
    An index stays an index. The implementation rounds all of these constants, and what it scales,
    to single precision."""
    if obs.ndim == 1:
        return obs
    parts = [obs]
    if scaled:
        low, high = np.array(space.low), np.array(space.high)
        parts = [(2 * (obs - low) / (high - low) - 1).astype(np.float32).astype(np.float64)]
    if features:
        generator = np.random.default_rng(0)
        omega = generator.normal(size=(obs.shape[-1], features)) / length
        phase = generator.uniform(0, 2 * np.pi, size=features)
        parts.append(np.cos(obs @ omega.astype(np.float32) + phase.astype(np.float32)))
    return np.concatenate(parts, axis=-1)


def silu(x):
    return x * sigmoid(x)


def relu(x):
    return maximum(x, 0.0)


def softplus(x):
    """log(1 + exp(x)), also where exp overflows."""
    return maximum(x, 0.0) + log(1 + exp(-absolute(x)))


def log_softmax(x):
    x = x - value(x).max(axis=-1, keepdims=True)
    return x - log(exp(x).sum(axis=-1, keepdims=True))


def softmax(x):
    return exp(log_softmax(x))


def symlog(x):
    return np.sign(x) * np.log1p(np.abs(x))


def symexp(x):
    return np.sign(x) * np.expm1(np.abs(x))


def dense(layer, x):
    return x @ layer["weight"] + layer["bias"][..., None, :]


def rms_norm(norm, x):
    return x / ((x * x).mean(axis=-1, keepdims=True) + 1e-4) ** 0.5 * norm["scale"][..., None, :]


def first_layer(layer, x, action, gain=1.0):
    """An affine map of observation and action; an index chooses a row. The weights say whether the
    action is read."""
    obs = layer["obs"]
    y = obs["table"][..., x, :] if "table" in obs else x @ obs["matrix"]
    if "action" in layer:
        y = y + gain * action @ layer["action"]
    return y + layer["bias"][..., None, :]


def mlp(net, x, action=None, gain=1.0, activation=silu):
    """Dense layers, each but the last followed by RMS norm and an activation."""
    y = activation(rms_norm(net["norms"][0], first_layer(net["first"], x, action, gain)))
    for i, layer in net.get("layers", {}).items():
        y = activation(rms_norm(net["norms"][i + 1], dense(layer, y)))
    return dense(net["out"], y)


def random_function(net, x, action):
    """Prior or corrector: tanh of a random Fourier network (section 3.1) or of a ReLU network."""
    if "readout" not in net:
        return tanh(mlp(net["body"], x, action, activation=relu)[..., 0])
    waves = cos(first_layer(net["phase"], x, action))
    width = waves.shape[-1]
    return tanh((2 / width) ** 0.5 * (waves @ net["readout"][..., None])[..., 0])


class Critic:
    """Q(s, a) over real actions or choices, read as one number or as a mean over bins."""

    def __init__(self, discrete, two_hot=False, gain=1.0):
        self.discrete, self.two_hot, self.gain = discrete, two_hot, gain

    def outputs(self, net, x, action):
        if not self.discrete:
            return mlp(net["body"], x, action, self.gain)
        every = mlp(net["body"], x)
        every = every.reshape(*every.shape[:-1], action.shape[-1], -1)
        return (action[..., None] * every).sum(axis=-2)

    def __call__(self, net, x, action):
        outputs = self.outputs(net, x, action)
        return (softmax(outputs) * BINS).sum(axis=-1) if self.two_hot else outputs[..., 0]

    def loss(self, net, x, action, target):
        """Squared error, or cross-entropy with the two bins that the target lies between."""
        outputs = self.outputs(net, x, action)
        if self.two_hot:
            return cross_entropy(outputs, two_hot(target))
        return (outputs[..., 0] - target) ** 2


def two_hot(target):
    """Shares of the bins on either side, which average to the target."""
    target = np.clip(target, BINS[0], BINS[-1])
    return np.maximum(0, np.stack([_hat(target, i) for i in range(len(BINS))], axis=-1))


def _hat(x, i):
    """1 at bin i, falling linearly to 0 at its neighbours."""
    left = (x - BINS[i - 1]) / (BINS[i] - BINS[i - 1]) if i else np.inf
    right = (BINS[i + 1] - x) / (BINS[i + 1] - BINS[i]) if i + 1 < len(BINS) else np.inf
    return np.minimum(np.minimum(left, right), 1.0)


def cross_entropy(logits, shares):
    return -(shares * log_softmax(logits)).sum(axis=-1)


class SquashedNormal:
    """tanh of a normal whose standard deviation is kept between 0.1 and 1."""

    def draw(self, net, x, key):
        """The action before and after tanh, and the log-density of the former's normal."""
        out = mlp(net["body"], x)
        size = out.shape[-1] // 2
        mean, std = out[..., :size], 0.1 + 0.9 * sigmoid(out[..., size:] + 2)
        noise = np.asarray(jax.random.normal(key, mean.shape))
        raw = mean + std * noise
        density = -0.5 * (((raw - mean) / std) ** 2) - log(std) - 0.5 * np.log(2 * np.pi)
        return raw, tanh(raw), density.sum(axis=-1)

    def sample(self, net, x, key):
        return self.draw(net, x, key)[1]

    def expect(self, net, x, key, judge):
        """The value of one draw, and minus its log-probability by change of variables."""
        raw, action, density = self.draw(net, x, key)
        slope = 2 * np.log(2) - 2 * raw - 2 * softplus(-2 * raw)  # log(1 - tanh^2)
        return judge(action), slope.sum(axis=-1) - density


class Categorical:
    """A softmax with a hundredth of the uniform distribution in it."""

    def probs(self, net, x):
        probs = softmax(mlp(net["body"], x))
        return 0.99 * probs + 0.01 / probs.shape[-1]

    def sample(self, net, x, key):
        probs = self.probs(net, x)
        return np.eye(probs.shape[-1])[np.asarray(jax.random.categorical(key, np.log(probs)))]

    def expect(self, net, x, key, judge):
        """The sum over choices, and the entropy."""
        probs = self.probs(net, x)
        choices = np.eye(probs.shape[-1])
        values = (
            probs[:, i] * judge(np.tile(choice, (probs.shape[0], 1)))
            for i, choice in enumerate(choices)
        )
        return sum(values), -(probs * log(probs)).sum(axis=-1)
