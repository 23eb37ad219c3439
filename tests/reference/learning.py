"""Optimisers, moving averages and running moments."""

import numpy as np

from reference.tape import gradient, tree

DECAYED = {"weight", "matrix", "table", "action"}
"""Names of weight matrices: neither biases, nor scales of norms, nor Fourier features."""


def step(learner, slopes, rate, decay=0.0):
    """Down the slopes by the optimiser whose moments the learner has; `decay` is decoupled and
    shrinks matrices only."""
    optimiser = adam if 0 in learner["moments"] else laprop
    direction, warmth, moments = optimiser(learner["net"], slopes, learner["moments"])

    def moved(weight, towards, decayed):
        return weight - rate * warmth * (towards + decay * decayed * weight)

    net = tree(moved, learner["net"], direction, _decayed(learner["net"]))
    return {"net": net, "moments": moments}


def adam(net, slopes, moments):
    """Adam with 0.9, 0.999 and 1e-8."""
    count = moments[0]["count"] + 1
    mu = tree(lambda m, g: 0.9 * m + 0.1 * g, moments[0]["mu"], slopes)
    nu = tree(lambda n, g: 0.999 * n + 0.001 * g**2, moments[0]["nu"], slopes)

    def direction(m, n):
        return m / (1 - 0.9**count) / (np.sqrt(n / (1 - 0.999**count)) + 1e-8)

    return tree(direction, mu, nu), 1.0, {0: {"count": count, "mu": mu, "nu": nu}}


def laprop(net, slopes, moments):
    """The authors' optimiser: slopes no longer than 0.3 of their tensor, divided by their root mean
    square, then averaged; a thousand updates of warm-up."""

    def clipped(g, weight):
        longest = 0.3 * max(1e-3, np.sqrt((weight**2).sum()))
        return g * min(1.0, longest / np.sqrt((g**2).sum()))

    count = moments[1]["count"] + 1
    slopes = tree(clipped, slopes, net)
    nu = tree(lambda n, g: 0.999 * n + 0.001 * g**2, moments[1]["nu"], slopes)
    scaled = tree(lambda g, n: g / np.sqrt(n / (1 - 0.999**count)), slopes, nu)
    ema = tree(lambda m, x: 0.9 * m + 0.1 * x, moments[2]["ema"], scaled)
    direction = tree(lambda m: m / (1 - 0.9**count), ema)
    new = {1: {"count": count, "nu": nu}, 2: {"count": count, "ema": ema}, 4: {"count": count}}
    return direction, min(1.0, (count - 1) / 1000), new


def _decayed(net, name=""):
    """1 at weight matrices, 0 elsewhere."""
    if isinstance(net, dict):
        return {key: _decayed(part, key) for key, part in net.items()}
    return float(name in DECAYED)


def descend(learner, loss, rate, decay=0.0):
    """One step down the slope of `loss`."""
    return step(learner, gradient(loss, learner["net"]), rate, decay)


def follow(target, net, rate):
    """A Polyak step."""
    return tree(lambda old, new: old + rate * (new - old), target, net)


def percentile_scale(scale, values):
    """Moving averages, at rate 0.01, of the 5th and the 95th percentile."""
    low, high = np.percentile(values, [5, 95])
    return {
        "low": 0.99 * scale["low"] + 0.01 * low,
        "high": 0.99 * scale["high"] + 0.01 * high,
    }


def divisor(scale):
    """S = max(1, h - l)."""
    return max(1.0, scale["high"] - scale["low"])


def joined(moments, values, most=np.inf):
    """Mean and variance of all values so far, by sums of values and of squares."""
    number, mean, variance = moments["number"], moments["mean"], moments["variance"]
    total = number + len(values)
    new_mean = (number * mean + values.sum(axis=0)) / total
    squares = (number * (variance + mean**2) + (values**2).sum(axis=0)) / total
    return {
        "number": np.minimum(total, most),
        "mean": new_mean,
        "variance": squares - new_mean**2,
    }


def spread(moments):
    """A standard deviation that is never 0."""
    return np.sqrt(moments["variance"] + 1e-8)
