"""Reverse-mode differentiation of NumPy expressions.

Functions of plain arrays give plain arrays. Only what depends on a `Var` is recorded, so a network
that is evaluated at plain parameters is held fixed, and `value` takes a result off the tape.
"""

from itertools import count

import numpy as np

_age = count()


class Var:
    """An array, and how a slope in it becomes slopes in the arrays that it was made from."""

    __array_ufunc__ = None  # lets `array * var` end up in `__rmul__`

    def __init__(self, value, parents=()):
        self.value = np.asarray(value, np.float64)
        self.parents = parents  # pairs of a Var and a function from slope to slope
        self.age = next(_age)

    @property
    def shape(self):
        return self.value.shape

    def __add__(self, other):
        return _binary(np.add, self, other, lambda d, a, b: d, lambda d, a, b: d)

    def __mul__(self, other):
        return _binary(np.multiply, self, other, lambda d, a, b: d * b, lambda d, a, b: d * a)

    def __matmul__(self, other):
        return _binary(
            np.matmul,
            self,
            other,
            lambda d, a, b: d @ np.swapaxes(b, -1, -2),
            lambda d, a, b: np.swapaxes(a, -1, -2) @ d,
        )

    def __rmatmul__(self, other):
        return Var(other) @ self

    def __pow__(self, power):
        return _made(self.value**power, self, lambda d: d * power * self.value ** (power - 1))

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self * (other**-1.0)

    def __rtruediv__(self, other):
        return self**-1.0 * other

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, where):
        def put(slope):
            whole = np.zeros(self.shape)
            np.add.at(whole, where, slope)
            return whole

        return _made(self.value[where], self, put)

    def reshape(self, *shape):
        return _made(self.value.reshape(*shape), self, lambda d: d.reshape(self.shape))

    def sum(self, axis=None, keepdims=False):
        def spread(slope):
            if axis is not None and not keepdims:
                slope = np.expand_dims(slope, axis)
            return np.broadcast_to(slope, self.shape)

        return _made(self.value.sum(axis=axis, keepdims=keepdims), self, spread)

    def mean(self, axis=None, keepdims=False):
        total = self.sum(axis, keepdims)
        return total * (total.value.size / self.value.size)


def _made(result, source, back):
    return Var(result, [(source, back)])


def _binary(function, a, b, back_a, back_b):
    a, b = (x if isinstance(x, Var) else Var(x) for x in (a, b))
    parents = [
        (a, lambda d: _shrink(back_a(d, a.value, b.value), a.shape)),
        (b, lambda d: _shrink(back_b(d, a.value, b.value), b.shape)),
    ]
    return Var(function(a.value, b.value), parents)


def _shrink(slope, shape):
    """Sum over the axes along which NumPy had repeated an operand."""
    slope = slope.sum(axis=tuple(range(slope.ndim - len(shape))))
    return slope.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(
        shape
    )


def _unary(function, slope):
    """`slope` is the derivative as a function of argument and result."""

    def apply(x):
        if not isinstance(x, Var):
            return function(x)
        y = function(x.value)
        return _made(y, x, lambda d: d * slope(x.value, y))

    return apply


exp = _unary(np.exp, lambda x, y: y)
log = _unary(np.log, lambda x, y: 1 / x)
tanh = _unary(np.tanh, lambda x, y: 1 - y**2)
cos = _unary(np.cos, lambda x, y: -np.sin(x))
absolute = _unary(np.abs, lambda x, y: np.sign(x))
sigmoid = _unary(lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y))


def maximum(x, floor):
    """The larger of an expression and a number; no slope where the number is."""
    return _unary(lambda a: np.maximum(a, floor), lambda a, y: np.where(a > floor, 1.0, 0.0))(x)


def concatenate(parts):
    """Side by side along the last axis."""
    if not any(isinstance(part, Var) for part in parts):
        return np.concatenate(parts, axis=-1)
    parts = [part if isinstance(part, Var) else Var(part) for part in parts]
    ends = np.cumsum([part.shape[-1] for part in parts])
    parents = [
        (part, lambda d, part=part, end=end: d[..., end - part.shape[-1] : end])
        for part, end in zip(parts, ends, strict=True)
    ]
    return Var(np.concatenate([part.value for part in parts], axis=-1), parents)


def value(x):
    """The number, off the tape."""
    return x.value if isinstance(x, Var) else x


def tree(function, *trees):
    """`function` at every array of nested dictionaries of the same structure."""
    if isinstance(trees[0], dict):
        return {name: tree(function, *(t[name] for t in trees)) for name in trees[0]}
    return function(*trees)


def gradient(loss, net):
    """The slope of `loss(net)`, a scalar, in every array of `net`."""
    variables = tree(Var, net)
    end = loss(variables)
    slopes, waiting, met = {end: np.ones(end.shape)}, [end], {end}
    while waiting:
        for parent, _ in waiting.pop().parents:
            if parent not in met:
                met.add(parent)
                waiting.append(parent)
    for node in sorted(met, key=lambda node: -node.age):  # children before their parents
        for parent, back in node.parents:
            slopes[parent] = slopes.get(parent, 0.0) + back(slopes[node])
    return tree(lambda v: slopes.get(v, np.zeros(v.shape)), variables)
