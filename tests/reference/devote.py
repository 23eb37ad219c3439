"""DEVOTE (Algorithm 1) and joint TD (eq. 4). RND is DEVOTE with one ReLU prior of the state."""

import jax
import numpy as np

from reference.learning import descend, divisor, follow, percentile_scale, step
from reference.nets import random_function
from reference.sac import Sac
from reference.tape import absolute, gradient


class Devote:
    """Algorithm 1 but for the soft resets, which come between updates."""

    def __init__(self, settings, spec):
        self.settings, self.sac = settings, Sac(settings.sac, spec)

    def learn(self, state, batch, key):
        task_key, mask_key, next_key, explore_key = jax.random.split(key, 4)
        mask = self.mask(mask_key, batch)
        task = self.sac.learn(state["task"], batch, task_key)  # lines 4 and 11

        def cancel(net):  # line 5
            return (mask * self.residual(net, state["prior"], batch.obs, batch.action) ** 2).mean()

        corrector = descend(state["corrector"], cancel, self.settings.corrector_rate)
        target = self.novelty_target(state, batch, next_key)

        def propagate(net):  # line 6
            return (mask * (self.novelty_value(net, batch.obs, batch.action) - target) ** 2).mean()

        novelty_value = self.sac.fit(state["novelty_value"], propagate)
        state = state | {
            "task": task,
            "corrector": corrector,
            "corrector_target": follow(
                state["corrector_target"], corrector["net"], self.settings.corrector_polyak
            ),
            "novelty_value": novelty_value,
            "novelty_value_target": self.sac.polyak(state["novelty_value_target"], novelty_value),
        }
        return self.improve_explorer(state, batch.obs, explore_key)  # line 12

    def mask(self, key, batch):
        """Which index learns from which transition."""
        shape = (self.settings.num_indices, len(batch.reward))
        drawn = jax.random.bernoulli(key, self.settings.bootstrap_probability, shape)
        return np.asarray(drawn, np.float64)

    def residual(self, corrector, prior, obs, action):
        """c + g for every index. Fourier networks see raw observations: ell is in their unit."""
        seen = obs if self.settings.prior == "fourier" else self.sac.scale(obs)
        return sum(random_function(net["members"], seen, action) for net in (corrector, prior))

    def novelty_value(self, net, obs, action):
        """rb for every index."""
        return self.sac.scalar_critic(net["members"], self.sac.see(obs), action)

    def novelty_target(self, state, batch, key):
        """gamma (|c + g| + rb)(s', a') at target networks, a' from the explorer; TUD: c + g."""

        def judge(action):
            local = self.residual(state["corrector_target"], state["prior"], batch.next_obs, action)
            if self.settings.propagation == "magnitude":
                local = np.abs(local)
            return local + self.novelty_value(state["novelty_value_target"], batch.next_obs, action)

        return self.sac.ahead(batch, state["explorer"], key, judge)

    def bonus(self, state, obs, action):
        """The mean over z of rb + |c + g|, or the standard deviation over z of rb + c + g."""
        ahead = self.novelty_value(state["novelty_value"]["net"], obs, action)
        local = self.residual(state["corrector"]["net"], state["prior"], obs, action)
        local = local * float(self.settings.bonus_has_novelty)
        if self.settings.bonus == "mean":
            return (ahead + absolute(local)).mean(axis=0)
        unsure = ahead + local
        return (((unsure - unsure.mean(axis=0)) ** 2).mean(axis=0) + 1e-8) ** 0.5

    def improve_explorer(self, state, obs, key):
        """The explorer up b / S + beta bonus; S is that of before, and then follows b."""
        seen, scale = self.sac.see(obs), state["value_scale"]

        def task(action):
            return self.sac.critic(state["task"]["task_value"]["net"], seen, action)

        def optimistic(action):
            share = 1 / divisor(scale) if self.settings.normalise_value else 1.0
            return task(action) * share + self.settings.optimism * self.bonus(state, obs, action)

        explorer = self.sac.improve(state["explorer"], seen, optimistic, key)
        action = self.sac.actor.sample(state["explorer"]["actor"]["net"], seen, key)
        scale = percentile_scale(scale, task(action))
        return state | {"explorer": explorer, "value_scale": scale}


class JointTd(Devote):
    """Every critic down the one squared error of b + rb + c + g, all targets at one rate."""

    def learn(self, state, batch, key):
        task_key, mask_key, next_key, actor_key, explore_key = jax.random.split(key, 5)
        mask, task, seen = self.mask(mask_key, batch), state["task"], self.sac.see(batch.obs)
        target = self.sac.task_target(task, batch, task_key)
        target = target + self.novelty_target(state, batch, next_key)

        def loss(nets):
            whole = (
                self.sac.critic(nets["b"], seen, batch.action)
                + self.novelty_value(nets["rb"], batch.obs, batch.action)
                + self.residual(nets["c"], state["prior"], batch.obs, batch.action)
            )
            return (mask * (target - whole) ** 2).mean()

        learners = {"b": task["task_value"], "rb": state["novelty_value"], "c": state["corrector"]}
        slopes = gradient(loss, {name: learner["net"] for name, learner in learners.items()})
        s, sac = self.settings, self.settings.sac
        rates = {
            "b": (sac.learning_rate, sac.critic_weight_decay),
            "rb": (sac.learning_rate, sac.critic_weight_decay),
            "c": (s.corrector_rate, 0.0),
        }
        new = {n: step(learner, slopes[n], *rates[n]) for n, learner in learners.items()}
        policy = self.sac.improve(
            task["policy"], seen, lambda a: self.sac.critic(new["b"]["net"], seen, a), actor_key
        )
        state = state | {
            "task": {
                "policy": policy,
                "task_value": new["b"],
                "task_value_target": self.sac.polyak(task["task_value_target"], new["b"]),
            },
            "corrector": new["c"],
            "corrector_target": self.sac.polyak(state["corrector_target"], new["c"]),
            "novelty_value": new["rb"],
            "novelty_value_target": self.sac.polyak(state["novelty_value_target"], new["rb"]),
        }
        return self.improve_explorer(state, batch.obs, explore_key)
