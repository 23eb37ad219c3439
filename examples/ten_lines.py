"""Learn, look, keep, use; on any Gymnasium id: `python examples/ten_lines.py CliffWalking-v1`."""

import sys

import gymnasium

from devote import Devote

name = sys.argv[1] if len(sys.argv) > 1 else "MountainCarContinuous-v0"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60_000

agent = Devote(name, seed=0)
agent.learn(steps)
print(agent.evaluate(episodes=10))
agent.save(f"runs/{name}")

env = gymnasium.make(name)
obs, _ = env.reset(seed=0)
action = Devote.load(f"runs/{name}").predict(obs)
print("from", obs, "do", action, "to", env.step(action)[0])
