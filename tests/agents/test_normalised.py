"""What a wrapped agent sees, and that the view stands still between its renewals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from devote.agents.devote import Devote
from devote.agents.normalised import Normalised, NormalisedState, normalised
from devote.agents.sac import Sac
from devote.build import build_program
from devote.core.settings import with_texts
from devote.core.types import Box, EnvSpec, Vector
from devote.epistemic.moments import moments
from devote.presets import PRESETS
from tiny import DEVOTE, SAC, SPECS, changed_leaves, fresh, some_batch

INF = float("inf")
SPEC = EnvSpec("own", Vector((-INF, 10.0, -INF), (INF, 30.0, INF), own_units=True), Box(2), 10)
KEY = jax.random.key(0)


def batch_around(seed: int, mean: float, std: float):
    """Entry 0 has these moments, entry 1 lies within its bounds, entry 2 never moves."""
    batch, rng = some_batch(seed, SPEC, size=64), np.random.default_rng(seed)

    def observations() -> jax.Array:
        drawn = rng.normal(size=64)
        drawn = mean + std * (drawn - drawn.mean()) / drawn.std()
        rows = np.stack([drawn, rng.uniform(10, 30, 64), np.full(64, 7.0)], 1)
        return jnp.asarray(rows, jnp.float32)

    return batch._replace(obs=observations(), next_obs=observations())


class Seeing:
    """Keeps the batch that it learned from, and answers with what it sees."""

    spec, sequence_length = SPEC, 1

    def init(self, key):
        return some_batch(0, SPEC, size=64)

    def update(self, state, batch, key):
        return batch, {}

    def refresh(self, state, key):
        return state

    def act(self, state, memory, obs, first, key):
        return obs, memory

    def exploit(self, state, obs, key=None):
        return obs

    def diagnose(self, state, batch):
        return {"seen": batch.obs}

    def maps(self, state, obs):
        return {"seen": obs}


def test_bounds_give_the_range_and_data_where_there_are_none() -> None:
    agent = Normalised(Seeing(), SPEC)
    batch = batch_around(0, 100.0, 5.0)
    state, _ = agent.update(agent.init(KEY), batch, KEY)
    rows = np.array([[100, 20, 7], [110, 30, 7], [95, 10, 8], [200, 40, 7]], np.float32)
    expected = [[0, 0, 0], [1, 1, 0], [-0.5, -1, 1], [10, 2, 0]]  # 10 = 2 std; a constant in units
    views = (
        agent.exploit(state, rows),
        agent.act(state, (), rows, jnp.zeros(4, bool), KEY)[0],
        agent.maps(state, rows)["seen"],
        agent.diagnose(state, batch._replace(obs=rows, next_obs=rows))["seen"],
    )
    for seen in views:
        np.testing.assert_allclose(seen, expected, atol=1e-4)
    learned = state.agent
    np.testing.assert_allclose(learned.obs, agent.exploit(state, batch.obs), atol=1e-6)
    np.testing.assert_allclose(learned.next_obs, agent.exploit(state, batch.next_obs), atol=1e-6)


def test_before_the_first_update_unbounded_entries_are_as_they_are() -> None:
    agent = Normalised(Seeing(), SPEC)
    seen = agent.exploit(agent.init(KEY), np.array([[3.0, 15.0, -4.0]], np.float32))
    np.testing.assert_allclose(seen, [[3.0, -0.5, -4.0]])


def test_the_view_is_renewed_at_powers_of_two_and_stands_still_between() -> None:
    agent = Normalised(Seeing(), SPEC)
    update = jax.jit(agent.update)
    state, renewed = agent.init(KEY), []
    for number in range(1, 34):
        after, _ = update(state, batch_around(number, float(number), 1.0 + number), KEY)
        if changed_leaves(state.view, after.view):
            renewed.append(number)
        state = after
    assert renewed == [1, 2, 4, 8, 16, 32]
    assert int(state.updates) == 33


def test_moments_of_all_batches_count_alike() -> None:
    agent = Normalised(Seeing(), SPEC)
    state = agent.init(KEY)
    batches = [batch_around(i, *kind) for i, kind in enumerate([(0, 1), (10, 3)])]
    for batch in batches:
        state, _ = agent.update(state, batch, KEY)
    every = np.concatenate([np.asarray(batch.obs) for batch in batches])
    np.testing.assert_allclose(state.view.middle[0], every[:, 0].mean(), rtol=1e-5)
    np.testing.assert_allclose(state.view.half[0], 2 * every[:, 0].std(), rtol=1e-5)


def test_steady_data_leave_novelty_alone_when_the_view_is_renewed() -> None:
    """A renewal on data of the same kind moves the prior's input by a few percent at most."""
    agent = Normalised(Seeing(), SPEC)
    state, where = agent.init(KEY), np.array([[103.0, 12.0, 7.0]], np.float32)
    seen = []
    for number in range(1, 17):
        state, _ = agent.update(state, batch_around(number, 100.0, 5.0), KEY)
        seen.append(np.asarray(agent.exploit(state, where)))
    assert np.abs(np.diff(seen, axis=0)).max() < 1e-3


def test_only_tasks_with_units_of_their_own_are_wrapped() -> None:
    assert isinstance(normalised(Sac, SAC, SPEC), Normalised)
    assert isinstance(normalised(Sac, SAC, SPECS["continuous"]), Sac)
    assert isinstance(normalised(Sac, SAC, SPECS["discrete"]), Sac)


def test_prior_and_networks_see_through_the_same_view() -> None:
    """DEVOTE in other units, told of the bounds, thinks what it thinks in the first."""
    settings = replace(DEVOTE, sac=replace(SAC, scale_inputs=True))
    plain = EnvSpec("plain", Vector((-1.0,) * 3, (1.0,) * 3), Box(2), 10)
    scaled = EnvSpec("own", Vector((0.0,) * 3, (200.0,) * 3, own_units=True), Box(2), 10)
    one, two = Devote(settings, plain), normalised(Devote, settings, scaled)
    state, batch = fresh(one), some_batch(0, plain)
    wrapped = NormalisedState(state, two.bounds, moments((3,)), jnp.int32(0))
    other = batch._replace(obs=100 * batch.obs + 100, next_obs=100 * batch.next_obs + 100)
    ours, theirs = jax.jit(one.maps)(state, batch.obs), jax.jit(two.maps)(wrapped, other.obs)
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], atol=1e-4)
    assert np.ptp(ours["novelty |c + g|"]) > 0.1


def test_counts_are_of_all_steps_in_the_units_of_now() -> None:
    """Without bounds the view moves; an exact corrector then counts what the replay holds again."""
    run = with_texts(
        PRESETS["smoke"]("gymnasium", "devote-plus"),
        dict(id="CartPole-v1", num_envs="4", learning_starts="40", updates_per_step="0.25")
        | dict(log_interval="40", basis_size="16", solve_interval="1", replay_capacity="4000"),
    )
    program = build_program(run)
    state = program.prefill(program.init())
    for _ in range(10):
        state, _ = program.chunk(state)
    updates, wrapped = int(state.clock.updates), state.agent
    assert updates == 100  # no power of two is near, so that the view is that of the last round
    number = int(state.clock.vector_steps)
    obs, action = (np.asarray(x)[:number] for x in (state.replay.obs, state.replay.action))
    seen = wrapped.view(jnp.asarray(obs.reshape(-1, obs.shape[-1])))
    chosen = jnp.asarray(action.reshape(-1, action.shape[-1]), jnp.float32)
    counted = wrapped.agent.corrector
    inner = program.loop.agent.agent.exact
    phi = np.asarray(counted.features.features(seen, inner._seen(chosen)))
    np.testing.assert_allclose(counted.gram, phi.T @ phi, rtol=1e-3, atol=1e-3)
    program.close()
