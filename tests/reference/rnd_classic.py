"""Random network distillation (Burda et al., 2018) on SAC, as docs/agents.md describes it."""

import jax
import numpy as np

from reference.learning import descend, divisor, joined, percentile_scale, spread
from reference.nets import mlp, relu
from reference.sac import Sac


class RndClassic:
    """An explorer paid by the error of predicting a random network at the successor."""

    def __init__(self, settings, spec):
        self.settings, self.sac = settings, Sac(settings.sac, spec)

    def learn(self, state, batch, key):
        """The observations' moments first; then pay, and only then distil."""
        task_key, next_key, explore_key = jax.random.split(key, 3)
        task = self.sac.learn(state["task"], batch, task_key)
        seen, clear = self.sac.see(batch.obs), batch.next_obs
        if clear.ndim == 2:  # an index needs no normalising
            state = state | {"seen": joined(state["seen"], batch.next_obs)}
            clear = (batch.next_obs - state["seen"]["mean"]) / spread(state["seen"])
            clear = np.clip(clear, -self.settings.observation_clip, self.settings.observation_clip)

        def error(net):
            wanted = mlp(state["prior"], clear, activation=relu)
            return ((mlp(net, clear, activation=relu) - wanted) ** 2).mean(axis=-1)

        paid = error(state["predictor"]["net"])
        target, returns = self.intrinsic_target(state, batch, paid, next_key)
        value = self.sac.fit(
            state["intrinsic_value"],
            lambda net: self.sac.scalar_critic.loss(net, seen, batch.action, target).mean(),
        )
        predictor = descend(
            state["predictor"], lambda net: error(net).mean(), self.settings.predictor_rate
        )
        state = state | {
            "task": task,
            "predictor": predictor,
            "intrinsic_value": value,
            "intrinsic_value_target": self.sac.polyak(state["intrinsic_value_target"], value),
            "returns": returns,
        }
        return self.improve_explorer(state, seen, explore_key)

    def intrinsic_target(self, state, batch, paid, key):
        """Returns in the error's own unit, divided by their spread up to and with this batch. The
        critic speaks in the unit of the spread before it."""
        seen = self.sac.see(batch.next_obs)
        target_net = state["intrinsic_value_target"]
        ahead = self.sac.ahead(
            batch, state["explorer"], key, lambda a: self.sac.scalar_critic(target_net, seen, a)
        )
        raw = paid + ahead * spread(state["returns"])
        returns = joined(state["returns"], raw)
        return raw / spread(returns), returns

    def improve_explorer(self, state, seen, key):
        """The explorer up b / S + weight Q_int; S is that of before, and then follows b."""
        scale = state["value_scale"]

        def task(action):
            return self.sac.critic(state["task"]["task_value"]["net"], seen, action)

        def optimistic(action):
            share = 1 / divisor(scale) if self.settings.normalise_value else 1.0
            intrinsic = self.sac.scalar_critic(state["intrinsic_value"]["net"], seen, action)
            return task(action) * share + self.settings.intrinsic_weight * intrinsic

        explorer = self.sac.improve(state["explorer"], seen, optimistic, key)
        action = self.sac.actor.sample(state["explorer"]["actor"]["net"], seen, key)
        return state | {"explorer": explorer, "value_scale": percentile_scale(scale, task(action))}
