"""What is typed after `devote train`: the task, the agent, and settings over a preset's."""

import os
import re
import sys
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

from devote.core.errors import UserError, not_among

STEPS = "Environment steps of each seed, rounded up: learning_starts, then whole log_intervals."


def parse_train(words: list[str]) -> tuple[Any, Path | None]:
    """The run that the words ask for; settings default to the preset's."""
    import tyro

    from devote.envs.gymnasium import GymnasiumSettings
    from devote.presets import PRESETS
    from devote.registry import AGENTS, TASKS
    from devote.run import Run

    named = _names(words)
    env = task_of(named.env, list(TASKS))
    agent = _choice("agent", named.agent, list(AGENTS))
    preset = _choice("preset", named.preset, list(PRESETS))
    base = PRESETS[preset](env, agent)
    if isinstance(base.env, GymnasiumSettings) and env != named.env:
        base = replace(base, env=replace(base.env, id=named.env))
    command = make_dataclass(
        "Train",
        [
            ("agent_name", _flag(str, "agent", f"One of {', '.join(AGENTS)}."), agent),
            ("preset", _flag(str, "preset", f"One of {', '.join(PRESETS)}."), preset),
            ("seed", _flag(int, "seed", "The first seed."), base.seed),
            ("seeds", _flag(int, "seeds", "How many seeds run as one program."), base.seeds),
            ("steps", _flag(int, "steps", STEPS), base.steps),
            ("out", _flag(Path | None, "out", "Run directory."), None),
            ("task", type(base.env), base.env),
            ("learner", type(base.agent), base.agent),
            ("loop", type(base.loop), base.loop),
        ],
        frozen=True,
    )
    asked: Any = tyro.cli(
        command,
        args=words[1:],
        prog=f"devote train {env}",
        description=f"Train {agent} in {env}; defaults are the preset `{preset}`.",
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    run = Run(
        env_name=env,
        agent_name=agent,
        preset=preset,
        env=asked.task,
        agent=asked.learner,
        loop=asked.loop,
        steps=asked.steps,
        seed=asked.seed,
        seeds=asked.seeds,
    )
    return run, asked.out


def describe(run: Any, directory: Path) -> str:
    """The run as its preset and the differences from it."""
    from devote.presets import PRESETS

    lines = [
        f"{run.agent_name} in {run.env_name}, preset {run.preset}, seed {run.seed}"
        + (f" to {run.seed + run.seeds - 1}" if run.seeds > 1 else "")
        + f", {run.steps:,} steps ({run.whole_steps:,} in whole chunks), in {directory}"
    ]
    difference = run.difference(PRESETS[run.preset](run.env_name, run.agent_name))
    for name, (value, default) in difference.items():
        if name not in ("seed", "seeds"):
            lines.append(f"  {name} = {value} (preset: {default})")
    return "\n".join(lines)


def default_name(run: Any) -> str:
    """The folder of a run whose user named none."""
    from devote.envs.gymnasium import GymnasiumSettings

    task = run.env.id if isinstance(run.env, GymnasiumSettings) else run.env_name
    return f"{re.sub('[^A-Za-z0-9_.-]', '_', task)}-{run.agent_name}-{run.preset}-{run.seed}"


@dataclass(frozen=True)
class Names:
    """The words that decide which settings there are."""

    env: str = "spiral"
    agent: str = "devote"
    preset: str = "desk"


def _names(words: list[str]) -> Names:
    """Environment, agent and preset, found before the settings are known."""
    found: dict[str, str] = {}
    if words and not words[0].startswith("-"):
        found["env"] = words[0]
    else:
        raise UserError("an environment after `devote train`", "none", "try: devote train spiral")
    for name in [entry.name for entry in fields(Names)][1:]:
        flag = f"--{name}"
        for position, word in enumerate(words):
            if word == flag and position + 1 < len(words):
                found[name] = words[position + 1]
            elif word.startswith(flag + "="):
                found[name] = word.split("=", 1)[1]
    return Names(**found)


def _flag(kind: Any, name: str, text: str) -> Any:
    from typing import Annotated

    import tyro

    return Annotated[kind, tyro.conf.arg(name=name, help=text)]


def task_of(name: str, known: list[str]) -> str:
    """The task that a word names: one of ours, or `gymnasium` for an id of Gymnasium's."""
    if name in known or not (":" in name or re.search(r"-v\d+$", name)):
        return _choice("environment", name, known)
    import_typed(name)
    return "gymnasium"


def import_typed(name: str) -> None:
    """Import the module of `module:name`, which a person has typed, also from where they are."""
    from devote.envs.naming import import_factory

    sys.path.insert(0, os.getcwd())
    import_factory(name)


def _choice(kind: str, name: str, known: list[str]) -> str:
    if name not in known:
        raise not_among(f"the {kind}", name, known)
    return name
