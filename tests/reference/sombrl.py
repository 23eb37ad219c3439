"""SOMBRL as the paper adapts it (docs/agents.md): an explorer paid by disagreement."""

import jax
import numpy as np

from reference.learning import descend, follow, joined, spread
from reference.nets import cross_entropy, mlp, softmax, symexp, symlog
from reference.sac import Sac
from reference.tape import exp
from reference.world_model import world_model_loss

MOST_COUNTED = 1e6


class Sombrl:
    """World model, ensemble, SAC, and beside it an intrinsic critic and its actor."""

    def __init__(self, settings, spec):
        self.settings, self.sac = settings, Sac(settings.sac, spec)

    def learn(self, state, batch, key):
        """The ensemble pays before its step, and lambda is measured by it after."""
        task_key, model_key, next_key, explore_key, weight_key = jax.random.split(key, 5)
        task = self.sac.learn(state["task"], batch, task_key)
        paid = self.disagreement(state["beliefs"]["guessers"]["net"], batch.obs, batch.action)
        state = state | {"task": task, "beliefs": self.believe(state["beliefs"], batch, model_key)}
        state = state | self.fit_intrinsic_value(state, batch, paid, next_key)
        explorer = self.improve_explorer(state, batch.obs, explore_key)
        return state | {"explorer": explorer} | self.weigh(state, explorer, batch.obs, weight_key)

    def believe(self, beliefs, batch, key):
        """A step of the model, and of the ensemble on what the model made of the batch before."""
        s = self.settings.uncertainty

        def model_loss(net):
            return world_model_loss(net, s.model, self.sac.see, batch, s.sequence_length, key)

        _, embedding, code = model_loss(beliefs["model"]["net"])
        pooled = embedding.reshape(len(embedding), s.embedding_size, -1).max(axis=-1)
        numbers = {"embedding": pooled, "reward": batch.reward}
        standards = {
            name: joined(beliefs["standards"][name], x, MOST_COUNTED) for name, x in numbers.items()
        }
        wanted = {
            name: symlog((x - standards[name]["mean"]) / spread(standards[name]))
            for name, x in numbers.items()
        }

        def guessing_loss(net):
            embeddings, codes, rewards = self.guess(net, batch.obs, batch.action)
            errors = ((embeddings - wanted["embedding"]) ** 2).sum(axis=-1)
            errors = errors + cross_entropy(codes, code).sum(axis=-1)
            return (errors + (rewards - wanted["reward"]) ** 2).mean()

        return beliefs | {
            "model": descend(beliefs["model"], lambda net: model_loss(net)[0], s.model_rate),
            "guessers": descend(beliefs["guessers"], guessing_loss, s.model_rate),
            "standards": standards,
        }

    def guess(self, net, obs, action):
        """Embedding and reward in symlog units, and logits of the code, by every member."""
        s = self.settings.uncertainty
        gain = self.settings.sac.action_gain
        out = mlp(net["members"]["body"], self.sac.see(obs), action, gain)
        codes = out[..., s.embedding_size : -1]
        codes = codes.reshape(*codes.shape[:-1], s.model.code_groups, s.model.code_classes)
        return out[..., : s.embedding_size], codes, out[..., -1]

    def disagreement(self, net, obs, action):
        """Standard deviations over the members, summed over all that they predict."""
        embedding, code, reward = self.guess(net, obs, action)
        predictions = [symexp(embedding), softmax(code), symexp(reward)]
        return sum(x.std(axis=0).reshape(len(action), -1).sum(axis=-1) for x in predictions)

    def fit_intrinsic_value(self, state, batch, paid, key):
        """Disagreement plus gamma Q_int(s', a') at the target network, a' from the explorer."""
        seen, seen_next = self.sac.see(batch.obs), self.sac.see(batch.next_obs)
        target_net = state["intrinsic_value_target"]
        target = paid + self.sac.ahead(
            batch, state["explorer"], key, lambda a: self.sac.critic(target_net, seen_next, a)
        )
        value = self.sac.fit(
            state["intrinsic_value"],
            lambda net: self.sac.critic.loss(net, seen, batch.action, target).mean(),
        )
        target_net = self.sac.polyak(target_net, value)
        return {"intrinsic_value": value, "intrinsic_value_target": target_net}

    def improve_explorer(self, state, obs, key):
        """Up b + lambda Q_int."""
        seen, weight = self.sac.see(obs), np.exp(state["log_weight"]["net"])
        task, intrinsic = state["task"]["task_value"]["net"], state["intrinsic_value"]["net"]

        def optimistic(action):
            bonus = self.sac.critic(intrinsic, seen, action)
            return self.sac.critic(task, seen, action) + weight * bonus

        return self.sac.improve(state["explorer"], seen, optimistic, key)

    def weigh(self, state, explorer, obs, key):
        """lambda falls while the explorer finds more disagreement than its slow copy."""
        seen, guessers = self.sac.see(obs), state["beliefs"]["guessers"]["net"]

        def found(actor):
            expected, _ = self.sac.actor.expect(
                actor, seen, key, lambda a: self.disagreement(guessers, obs, a)
            )
            return expected.mean()

        s, actor, slow = self.settings, explorer["actor"]["net"], state["slow_explorer"]
        surplus = found(actor) - found(slow)

        def loss(log_weight):
            return log_weight * surplus + s.intrinsic_weight_penalty * exp(log_weight) ** 2

        return {
            "log_weight": descend(state["log_weight"], loss, s.intrinsic_weight_rate),
            "slow_explorer": follow(slow, actor, s.slow_explorer_polyak),
        }
