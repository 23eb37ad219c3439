"""The second actor: it makes the data, and climbs the task value plus a bonus (section 4)."""

from dataclasses import dataclass

from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.sac import Policy, Sac
from devote.core.types import Metrics, Observation, Transition
from devote.epistemic.tud import ValueScale, dormancy
from devote.nets.actor import Value


@dataclass(frozen=True)
class Explorer:
    """An actor on a SAC that maximises b / S + weight * bonus."""

    sac: Sac
    weight: float
    """beta: how much the bonus counts."""
    normalise: bool
    """Divide the task value by its scale S."""

    def optimistic_value(
        self, scale: ValueScale, task_value: Value, bonus: Value, obs: Observation, action: Array
    ) -> Float[Array, "batch"]:
        """b / S + beta * bonus."""
        divisor = scale.divisor if self.normalise else 1.0
        return task_value(obs, action) / divisor + self.weight * bonus(obs, action)

    def improve(
        self,
        policy: Policy,
        scale: ValueScale,
        optimistic: Value,
        task_value: Value,
        obs: Observation,
        key: PRNGKeyArray,
    ) -> tuple[Policy, ValueScale, Metrics]:
        """One step of the actor up the optimistic value; S follows the task value."""
        improved, metrics = self.sac.improve_explorer(policy, obs, optimistic, key)
        action = policy.actor.net.sample(obs, key)  # the key of the step: the same draw
        return improved, scale.follow(task_value(obs, action)), metrics

    def diagnose(self, policy: Policy, scale: ValueScale, batch: Transition) -> Metrics:
        """Dormant units of the actor, and S."""
        hidden = policy.actor.net.body.hidden(batch.obs)
        return dormancy(hidden) | {"explore/value_scale": scale.divisor}
