"""The command line: one function per command."""

import faulthandler
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from devote.core.cache import use_compilation_cache
from devote.core.errors import DivergedError, EnvironmentFailedError, UserError, not_among
from devote.loops.signals import exit_code
from devote.names import AGENTS, PRESETS, choice, import_typed, task_of

EXIT_DIVERGED = 3
HELP = ("-h", "--help")
USAGE = """usage: devote train ENV [--agent A] [--preset P] [--seed S] [--steps N] [--out DIR] ...
       devote compare --envs ENV ... --agents A ... [--seeds N] [--preset P] [--set NAME=VALUE] ...
       devote figure LABEL [--scale smoke|desk|paper] [--only TASK ...] [--draw-only]
       devote figures [--scale smoke|desk|paper]
       devote render RUN [--env ENV] [--out FILM] [--explore] [--episode N] [--map]
       devote check-env ENV
       devote demo [--out DIR] [--seed S] [--steps N]

  devote demo                    DEVOTE and SAC in the spiral maze, ending in one picture
  devote train spiral            train DEVOTE in the spiral maze on the desk preset
  devote train ENV --help        every setting of ENV, the agent and the schedule
  devote train Acrobot-v1        any Gymnasium id, or module:MyEnv for an environment of your own
  devote train dmc:cheetah-run   a task of dm_control
  devote check-env module:MyEnv  what an environment does wrong, and how to put it right
  devote render runs/MY_RUN      a GIF of what the trained agent does
  devote compare --envs spiral   DEVOTE and SAC, five seeds: curves, table, what it allows to say
  devote figures                 figures of the paper: what is run, what is missing, how long
"""


STEPS = "Environment steps of each seed, rounded up: learning_starts, then whole log_intervals."

CHECK_USAGE = """usage: devote check-env ENV

Tries an environment out and prints what passes and what fails, each with what was expected, what
came and what to do; the exit code is 1 if anything failed. ENV is a Gymnasium id, or module:MyEnv
for a class or a function without arguments in a module that Python finds from here.
"""


def main() -> None:
    """Entry point; what a user can put right, or has done, is one message and no traceback."""
    if sys.__stderr__ is not None:  # where an environment crashes in native code, it shows
        faulthandler.enable(sys.__stderr__)
    try:
        code = dispatch(sys.argv[1:])
        print(end="", flush=True)
        sys.exit(code)
    except (UserError, EnvironmentFailedError) as error:
        _leave(str(error), 2)
    except DivergedError as error:
        _leave(str(error), EXIT_DIVERGED)
    except KeyboardInterrupt:
        _leave("interrupted", exit_code("SIGINT"))
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still holds back
        sys.exit(exit_code("SIGPIPE"))
    except OSError as error:
        if error.filename is None:
            raise
        fix = "make room there or name another place; the same command goes on with what is saved"
        _leave(f"cannot use {error.filename}: {error.strerror}; {fix}", 2)


def _leave(message: str, code: int) -> NoReturn:
    print(f"devote: {message}", file=sys.stderr)
    sys.exit(code)


def dispatch(words: list[str]) -> int:
    """Run the command that the first word names."""
    commands: dict[str, Callable[[list[str]], int]] = {"train": train_command, "demo": demo_command}
    commands |= {"check-env": check_env_command, "render": render_command}
    commands |= {name: partial(study_command, name) for name in ("compare", "figure", "figures")}
    if not words or words[0] in HELP or words in (["train", flag] for flag in HELP):
        print(USAGE)
        return 0
    if words[0] not in commands:
        raise not_among("the command", words[0], list(commands))
    return commands[words[0]](words[1:])


def train_command(words: list[str]) -> int:
    """Train, or continue, one run; then draw its figures."""
    run, out = parse_train(words)
    run.check()
    directory = out or Path("runs") / default_name(run)
    print(describe(run, directory))
    use_compilation_cache()
    from devote.build import plan
    from devote.loops.train import train
    from devote.run_report import draw_run

    result = train(plan(run, directory))
    if result.stopped_by is not None:
        print(
            f"stopped by {result.stopped_by} at step {result.step:,}; everything is saved in "
            f"{directory}; the same command continues"
        )
        return exit_code(result.stopped_by)
    written = draw_run(result, directory, f"{run.env_name} {run.agent_name} {run.preset}")
    for path in written:
        print(f"wrote {path}")
    if not written:
        print("no maps: coverage is counted over entries of observations, see --coverage-entries")
    return 0


def check_env_command(words: list[str]) -> int:
    """Print what an environment does right and wrong; 1 if there is anything wrong."""
    if words and words[0] in HELP:
        print(CHECK_USAGE)
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        fix = "try: devote check-env my_package:MyEnv"
        raise UserError("one environment after `devote check-env`", " ".join(words) or "none", fix)
    from devote.envs.check import check_apart

    import_typed(words[0])
    report = check_apart(words[0])
    print(report)
    return 0 if report.ok else 1


def render_command(words: list[str]) -> int:
    """A film of a run's agent."""
    import tyro

    use_compilation_cache()
    from devote.render import Render, render

    asked = tyro.cli(Render, args=words, prog="devote render")
    if asked.env is not None:
        import_typed(asked.env)
    print(f"wrote {render(asked)}")
    return 0


def study_command(name: str, words: list[str]) -> int:
    """A command of `experiments`."""
    from devote.experiments import commands

    return commands.COMMANDS[name](words)


def demo_command(words: list[str]) -> int:
    """DEVOTE and SAC in the spiral maze, ending in one picture."""
    import tyro

    asked = tyro.cli(Demo, args=words, prog="devote demo")
    use_compilation_cache()
    from devote.demo import run_demo

    path, stopped_by = run_demo(asked.out, asked.seed, asked.steps)
    if stopped_by is not None:
        print(f"stopped by {stopped_by}; everything is saved; the same command continues")
        return exit_code(stopped_by)
    print(f"wrote {path}")
    return 0


@dataclass(frozen=True)
class Demo:
    """DEVOTE and SAC in the spiral maze, without rewards, on the desk preset."""

    out: Path = Path("runs/demo")
    """Where runs and picture go."""
    seed: int = 0
    """Seed of both agents."""
    steps: int | None = None
    """Environment steps of each agent, the preset's by default; rounded up to whole chunks."""


# What is typed after `devote train`: the task, the agent, and settings over a preset's.


def parse_train(words: list[str]) -> tuple[Any, Path | None]:
    """The run that the words ask for; settings default to the preset's."""
    named = _names(words)
    env = task_of(named.env)
    agent = choice("the agent", named.agent, AGENTS)
    preset = choice("the preset", named.preset, PRESETS)
    import tyro

    from devote import presets
    from devote.envs.gymnasium import GymnasiumSettings
    from devote.run import Run

    base = presets.PRESETS[preset](env, agent)
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
    from devote import presets

    lines = [
        f"{run.agent_name} in {run.env_name}, preset {run.preset}, seed {run.seed}"
        + (f" to {run.seed + run.seeds - 1}" if run.seeds > 1 else "")
        + f", {run.steps:,} steps ({run.whole_steps:,} in whole chunks), in {directory}"
    ]
    difference = run.difference(presets.PRESETS[run.preset](run.env_name, run.agent_name))
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
    import tyro

    return Annotated[kind, tyro.conf.arg(name=name, help=text)]
