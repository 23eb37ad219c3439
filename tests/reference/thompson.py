"""Thompson sampling: SACs with randomised priors (Osband et al., 2018), one after the other."""

import jax
import numpy as np

from reference.nets import random_function
from reference.sac import Sac
from reference.tape import tree


class Thompson:
    """Member i believes Q_i = b_i + scale p_i and learns b_i from its share of the batch."""

    def __init__(self, settings, spec):
        self.settings, self.sac = settings, Sac(settings.sac, spec)

    def learn(self, state, batch, key):
        s = self.settings
        mask_key, update_key = jax.random.split(key)
        shape = (s.num_members, len(batch.reward))
        mask = np.asarray(jax.random.bernoulli(mask_key, s.bootstrap_probability, shape), float)
        members = [
            self.learn_member(
                tree(lambda x, i=i: x[i], state["members"]),
                tree(lambda x, i=i: x[i], state["prior"]["members"]),
                batch,
                mask[i],
                member_key,
            )
            for i, member_key in enumerate(jax.random.split(update_key, s.num_members))
        ]
        return state | {"members": tree(lambda *x: np.stack(x), *members)}

    def learn_member(self, member, prior, batch, mask, key):
        """SAC on Q = b + scale p; the critic is left the target minus scale p."""
        s, next_key, actor_key = self.settings, *jax.random.split(key)

        def believed(net, obs, action):
            scaled = s.prior_scale * random_function(prior, self.sac.scale(obs), action)
            return self.sac.critic(net, self.sac.see(obs), action) + scaled

        target = batch.reward + self.sac.ahead(
            batch,
            member["policy"],
            next_key,
            lambda a: believed(member["task_value_target"], batch.next_obs, a),
        )
        seen = self.sac.see(batch.obs)
        known = s.prior_scale * random_function(prior, self.sac.scale(batch.obs), batch.action)

        def loss(net):
            return (mask * self.sac.critic.loss(net, seen, batch.action, target - known)).mean()

        task_value = self.sac.fit(member["task_value"], loss)
        net = task_value["net"]

        def climbed(action):
            if s.prior_in_actor:
                return believed(net, batch.obs, action)
            return self.sac.critic(net, seen, action)

        return {
            "policy": self.sac.improve(member["policy"], seen, climbed, actor_key),
            "task_value": task_value,
            "task_value_target": self.sac.polyak(member["task_value_target"], task_value),
        }
