"""Evaluation counts complete episodes, each once."""

import jax
import pytest
from scripted import LIMIT, SUCCESS, Counter, Scripted

from devote.loops.evaluate import evaluate


def test_early_successes_bias_nothing_and_nothing_counts_after_the_end() -> None:
    found = evaluate(Scripted(), Counter(), {}, 400, jax.random.key(0))
    won = float(found["eval/mean_reward"])  # 1 per success, though the world would go on paying
    assert won == pytest.approx(0.5, abs=0.1)
    assert won * 400 == pytest.approx(round(won * 400), abs=1e-3)
    length = SUCCESS * won + LIMIT * (1 - won)
    assert found["eval/mean_ep_length"] == pytest.approx(length, rel=1e-5)
    assert found["eval/success_rate"] == found["eval/term/prize"] == found["eval/mean_reward"]
    ages = sum(range(SUCCESS + 1)) * won + sum(range(LIMIT + 1)) * (1 - won)
    assert found["eval/term/age"] == pytest.approx(ages, rel=1e-5)
    assert found["eval/std_reward"] == pytest.approx((won * (1 - won)) ** 0.5, rel=1e-4)
