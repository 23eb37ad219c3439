"""From nothing to a learning curve of a Gymnasium task: `python examples/first_curve.py`."""

import matplotlib.pyplot as plt

from devote import Sac

rows = []
agent = Sac("CartPole-v1", seed=0).learn(6_000, callback=rows.append)
print(agent.evaluate(episodes=10))
plt.plot([row["step"] for row in rows], [row["rollout/ep_rew_mean"] for row in rows], "o-")
plt.gca().set(xlabel="environment steps", ylabel="return while exploring")
plt.savefig("curve.png")
