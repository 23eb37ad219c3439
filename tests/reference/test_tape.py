"""The tape against central differences."""

import numpy as np
import pytest

from reference.nets import log_softmax, rms_norm, silu, softplus
from reference.tape import (
    Var,
    absolute,
    concatenate,
    cos,
    exp,
    gradient,
    log,
    maximum,
    sigmoid,
    tanh,
    tree,
    value,
)

RNG = np.random.default_rng(0)
FIXED = RNG.normal(size=(4, 3))
NET = {"a": RNG.normal(size=(4, 3)), "b": RNG.normal(size=(2, 3, 5)), "c": RNG.normal(size=3)}
ROWS = np.array([0, 2, 2, 3, 0])

EXPRESSIONS = {
    "sums and products, repeated along axes": lambda n: n["a"] * n["c"] - FIXED + 2 - n["c"],
    "an array on the left": lambda n: FIXED * n["a"] + FIXED - (FIXED - n["c"]) / 3,
    "quotients and powers": lambda n: FIXED / (n["a"] ** 2 + 1) + (n["a"] ** 2 + 1) ** 0.5 / n["c"],
    "matrices": lambda n: n["a"] @ n["b"],
    "a matrix after an array": lambda n: FIXED @ n["b"],
    "a matrix used twice": lambda n: (n["a"] @ n["b"])[..., :3] * n["a"],
    "rows named twice": lambda n: n["a"][ROWS] ** 3,
    "slices and new axes": lambda n: n["a"][:, None, 1:] * n["b"][1, :1, 3:],
    "sums and means": lambda n: n["a"].sum(axis=0) * n["a"].mean(axis=1, keepdims=True),
    "one mean of all": lambda n: n["a"].mean() * n["c"],
    "sums over middle axes": lambda n: n["b"].sum(axis=-2) ** 2 * n["b"].mean(axis=1),
    "shapes": lambda n: n["b"].reshape(5, 6) ** 2 @ n["a"].reshape(6, -1),
    "exponentials": lambda n: exp(n["a"]) + log(n["a"] ** 2 + 1) * sigmoid(n["c"]),
    "waves": lambda n: tanh(n["a"]) * cos(n["c"]),
    "corners": lambda n: absolute(n["a"]) * 3 + maximum(n["a"], 0.2) * n["c"],
    "parts side by side": lambda n: concatenate([n["a"], FIXED, n["a"][:, :2] ** 2]) ** 2,
    "networks": lambda n: log_softmax(
        silu(rms_norm({"scale": n["c"]}, n["a"])) @ n["b"] + softplus(n["b"][0, 0])
    ),
}


def slope_by_differences(function, x, step=1e-6):
    slope = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        slope[place] = (function(up) - function(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_slopes_are_those_of_central_differences(expression) -> None:
    def loss(net):
        out = expression(net)
        weights = np.random.default_rng(1).normal(size=out.shape)  # no entry may stand for another
        return (out * weights).sum()

    found = gradient(loss, NET)
    for name, leaf in NET.items():

        def moved(x, name=name):
            return loss({**NET, name: x})

        np.testing.assert_allclose(
            found[name], slope_by_differences(moved, leaf), rtol=1e-6, atol=1e-7, err_msg=name
        )


def test_plain_arrays_stay_plain_and_what_is_taken_off_the_tape_has_no_slope() -> None:
    plain = EXPRESSIONS["networks"](NET)
    assert isinstance(plain, np.ndarray)
    taped = EXPRESSIONS["networks"](tree(Var, NET))
    np.testing.assert_allclose(plain, value(taped), rtol=1e-12)
    held = gradient(lambda x: (value(x) * x).sum(), FIXED)
    np.testing.assert_array_equal(held, FIXED)
