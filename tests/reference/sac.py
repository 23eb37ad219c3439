"""SAC with one critic and reward-only targets (appendix D.1), the backbone of every agent."""

import jax
import numpy as np

from reference.learning import descend, follow
from reference.nets import Categorical, Critic, SquashedNormal, view
from reference.tape import exp


class Sac:
    """Networks and rates that the agents share."""

    def __init__(self, settings, spec):
        self.settings, self.spec = settings, spec
        self.discrete = type(spec.action).__name__ == "Choice"
        self.actor = Categorical() if self.discrete else SquashedNormal()
        self.critic = Critic(self.discrete, settings.value_head == "two_hot", settings.action_gain)
        self.scalar_critic = Critic(self.discrete, False, settings.action_gain)

    def see(self, obs):
        """What critics and actors see."""
        s = self.settings
        return view(self.spec.observation, obs, s.scale_inputs, s.input_features, s.input_length)

    def scale(self, obs):
        """What ReLU priors see."""
        return view(self.spec.observation, obs, self.settings.scale_inputs)

    def fit(self, learner, loss):
        """A step of a critic, the only kind of network that decays."""
        s = self.settings
        return descend(learner, loss, s.learning_rate, s.critic_weight_decay)

    def polyak(self, target, learner):
        return follow(target, learner["net"], self.settings.polyak)

    def ahead(self, batch, policy, key, judge):
        """gamma times the value of what the policy does next; nothing follows a termination."""
        seen = self.see(batch.next_obs)
        expected, _ = self.actor.expect(policy["actor"]["net"], seen, key, judge)
        return self.settings.discount * batch.discount * expected

    def task_target(self, state, batch, key):
        """r + gamma b(s', a') at the target network, a' from the exploitation actor (eq. 6)."""
        seen = self.see(batch.next_obs)
        return batch.reward + self.ahead(
            batch, state["policy"], key, lambda a: self.critic(state["task_value_target"], seen, a)
        )

    def learn(self, state, batch, key):
        """Critic, then the actor on the new critic, and the target."""
        next_key, actor_key = jax.random.split(key)
        seen, target = self.see(batch.obs), self.task_target(state, batch, next_key)
        task_value = self.fit(
            state["task_value"],
            lambda net: self.critic.loss(net, seen, batch.action, target).mean(),
        )
        policy = self.improve(
            state["policy"], seen, lambda a: self.critic(task_value["net"], seen, a), actor_key
        )
        return {
            "policy": policy,
            "task_value": task_value,
            "task_value_target": self.polyak(state["task_value_target"], task_value),
        }

    def improve(self, policy, seen, judge, key):
        """The actor up value plus alpha entropy; alpha down while there is more than wanted."""
        s, alpha = self.settings, np.exp(policy["log_temperature"]["net"])

        def loss(net):
            expected, entropy = self.actor.expect(net, seen, key, judge)
            return -(expected + alpha * entropy).mean()

        _, entropy = self.actor.expect(policy["actor"]["net"], seen, key, judge)
        surplus = entropy.mean() - self.wanted_entropy()
        return {
            "actor": descend(policy["actor"], loss, s.learning_rate),
            "log_temperature": descend(
                policy["log_temperature"], lambda x: exp(x) * surplus, s.temperature_rate
            ),
        }

    def wanted_entropy(self):
        """A share of the largest, or so much per dimension."""
        s, size = self.settings, self.spec.action.size
        if self.discrete:
            return s.target_entropy_fraction * np.log(size)
        return s.target_entropy_per_dimension * size
