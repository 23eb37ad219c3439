"""The command line: one function per command."""

import argparse
import errno
import faulthandler
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import Annotated, Any, NoReturn, TypeVar

from devote.core.durable import use_compilation_cache
from devote.core.errors import DivergedError, EnvironmentFailedError, UserError, extra, not_among
from devote.loops.signals import exit_code
from devote.names import AGENTS, PRESETS, TASKS, choice, import_typed, task_of

T = TypeVar("T")
EXIT_DIVERGED = 3
NOBODY_READS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""Errors of writing to an output that is closed, or on a full disk."""
HELP = ("-h", "--help")
COMMANDS = ("compare", "figure", "figures", "tune")  # of studies
USAGE = """usage: devote train ENV [--agent A] [--preset P] [--seed S] [--steps N] [--out DIR] ...
       devote compare --envs ENV ... --agents A ... [--seeds N] [--preset P] [--set NAME=VALUE] ...
       devote figure LABEL [--scale smoke|desk|paper] [--only TASK ...] [--draw-only]
       devote figures [--scale smoke|desk|paper]
       devote tune ENV [--agent A] [--trials N] [--space NAME=LOW:HIGH:log] ...
       devote render RUN [--env ENV] [--out FILM] [--explore] [--episode N] [--map] [--timelapse]
       devote watch [RUN or FOLDER ...] [--host H] [--port N]
       devote doctor RUN
       devote evaluate-critic RUN [--out DIR] [--rollouts N] [--steps N] [--states N]
       devote check-env ENV
       devote demo [--out DIR] [--seed S] [--steps N]

  devote demo                    DEVOTE and SAC in the spiral maze, ending in one picture
  devote train spiral            train DEVOTE in the spiral maze on the desk preset
  devote train ENV --help        every setting of ENV, the agent and the schedule
  devote train Acrobot-v1        any Gymnasium id, or module:MyEnv for an environment of your own
  devote train dmc:cheetah-run   a task of dm_control
  devote train spiral --watch    the same, with a page in the browser that shows it explore
  devote check-env module:MyEnv  what an environment does wrong, and how to put it right
  devote render runs/MY_RUN      a GIF of what the trained agent does
  devote watch                   runs below this folder in the browser, while they train or after
  devote doctor runs/MY_RUN      what is wrong with a run, and what to try
  devote evaluate-critic RUN     whether a value's uncertainty is calibrated (cartpole, cheetah)
  devote compare --envs spiral   DEVOTE and SAC, five seeds: curves, table, what it allows to say
  devote tune CartPole-v1        settings by trials: the best as a command, checked on fresh seeds
  devote figures                 figures of the paper: what is run, what is missing, how long
"""


DEVICES = "Devices for the batch of one seed, or for several seeds, which take all by default."
STEPS = "Environment steps of each seed, rounded up: learning_starts, then whole log_intervals."


def plain_warning(
    message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Our own warnings without the line of our code that gave them."""
    if category is UserWarning and Path(filename).is_relative_to(Path(__file__).parent):
        return f"devote: {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def main() -> None:
    """Entry point; users' mistakes give one message and no traceback."""
    warnings.formatwarning = plain_warning
    if sys.__stderr__ is not None:  # shows where native code crashes
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
    except (MemoryError, RuntimeError) as error:
        memory = ("RESOURCE_EXHAUSTED", "Out of memory")  # JAX may call it an internal error
        if isinstance(error, RuntimeError) and not any(word in str(error) for word in memory):
            raise
        _leave(f"not enough memory ({error}); lower replay_capacity, batch_size or seeds", 2)
    except OSError as error:
        if error.filename is None and error.errno in NOBODY_READS:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is still buffered
            if error.errno == errno.EPIPE:  # as after `| head`
                sys.exit(exit_code("SIGPIPE"))
            _leave(f"cannot write what is printed: {error.strerror}", 2)
        if error.filename is None:
            raise
        fix = "make room there or name another place; the same command continues from what is saved"
        _leave(f"cannot use {error.filename}: {error.strerror}; {fix}", 2)


def _leave(message: str, code: int) -> NoReturn:
    print(f"devote: {message}", file=sys.stderr)
    sys.exit(code)


def dispatch(words: list[str]) -> int:
    """Run the command that the first word names."""
    commands: dict[str, Callable[[list[str]], int]] = {"train": train_command, "demo": demo_command}
    commands |= {"check-env": check_env_command, "render": render_command}
    commands |= {"watch": watch_command, "doctor": doctor_command}
    commands |= {"evaluate-critic": evaluate_critic_command}
    commands |= {name: partial(study_command, name) for name in COMMANDS}
    if not words or words[0] in HELP or words in (["train", flag] for flag in HELP):
        print(USAGE)
        return 0
    if words == ["--version"]:
        print(f"devote {metadata.version('devote')}")
        return 0
    if words[0] not in commands:
        raise not_among("the command", words[0], list(commands))
    return commands[words[0]](words[1:])


def train_command(words: list[str]) -> int:
    """Start or continue a run, then draw its figures."""
    run, asked = parse_train(words)
    run.check()
    if asked.print_config:
        print(config_of(run))
        return 0
    directory = asked.out or Path("runs") / default_name(run)
    print(describe(run, directory))
    use_compilation_cache()
    from devote.build import plan
    from devote.loops.train import train
    from devote.run_report import closing_words, draw_run

    planned, loggers = plan(run, directory, asked.devices), loggers_of(asked, directory)

    def tell(rows: list[Any]) -> None:
        for log in loggers:
            for row in rows:
                log(row)

    with page_beside(directory) if asked.watch else nullcontext():
        try:
            result = train(planned, callback=tell)
        finally:
            for log in loggers:
                log.on_end()
    if result.stopped_by is not None:
        print(
            f"stopped by {result.stopped_by} at step {result.step:,}; everything is saved in "
            f"{directory}; the same command continues"
        )
        return exit_code(result.stopped_by)
    for path in draw_run(result, directory, f"{task_name(run)} {run.agent_name} {run.preset}"):
        print(f"wrote {path}")
    print("\n".join(closing_words(directory, run.loop.eval_episodes)))
    return 0


def loggers_of(asked: Any, directory: Path) -> list[Any]:
    """Loggers of the metrics besides `metrics.csv`."""
    from devote.loggers import TensorBoard, Wandb

    found: list[Any] = [TensorBoard(directory / "tensorboard")] if asked.tensorboard else []
    return found + ([Wandb(name=directory.name, directory=directory)] if asked.wandb else [])


@contextmanager
def page_beside(directory: Path) -> Iterator[None]:
    """`devote watch` in a child process, during the training."""
    with extra("live"):
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    directory.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "devote", "watch", str(directory)]
    page = subprocess.Popen(words, start_new_session=True)  # Ctrl-C is not for it
    try:
        yield
    finally:
        page.terminate()
        page.wait()


def typed(kind: type[T], words: list[str], command: str) -> T:
    """The arguments of a command."""
    import tyro

    required = (tyro.conf.PositionalRequiredArgs,)
    return tyro.cli(kind, args=words, prog=f"devote {command}", config=required)


@dataclass(frozen=True)
class CheckEnv:
    """Play random actions in an environment and print what passes and what fails, with the fix; the
    exit code is 1 if anything failed."""

    env: str
    """A Gymnasium id, a dmc: task, or module:MyEnv, a class or function importable from here."""
    env_options: tuple[str, ...] = ()
    """Options of the environment as name=value."""


def check_env_command(words: list[str]) -> int:
    """Check an environment; 1 if anything fails."""
    asked = typed(CheckEnv, words, "check-env")
    if asked.env in TASKS:
        fix = f"devote train {asked.env}"
        raise UserError("a Gymnasium environment to check", f"{asked.env}, a task of devote", fix)
    from devote.envs.check import check_in_child

    import_typed(asked.env)
    report = check_in_child(asked.env, asked.env_options)
    print(report)
    return 0 if report.ok else 1


def render_command(words: list[str]) -> int:
    """Write a film of a run's agent."""
    use_compilation_cache()
    from devote.render import Render, render

    asked = typed(Render, words, "render")
    if asked.env is not None:
        import_typed(asked.env)
    print(f"wrote {render(asked)}")
    return 0


def watch_command(words: list[str]) -> int:
    """Serve a page that shows runs."""
    from devote.live.server import Watch, watch

    return watch(typed(Watch, words, "watch"))


def doctor_command(words: list[str]) -> int:
    """Say what is wrong with a run; 1 if anything is."""
    from devote.doctor import Doctor, doctor

    return doctor(typed(Doctor, words, "doctor"))


def evaluate_critic_command(words: list[str]) -> int:
    """Measure whether the uncertainty of a run's value is calibrated."""
    from devote.experiments.policy_evaluation import evaluate_critic

    return evaluate_critic(words)


def study_command(name: str, words: list[str]) -> int:
    """A command of `experiments`."""
    from devote.experiments import commands

    return commands.COMMANDS[name](words)


def demo_command(words: list[str]) -> int:
    """Train DEVOTE and SAC in the spiral maze and draw one figure."""
    asked = typed(Demo, words, "demo")
    use_compilation_cache()
    from devote.demo import run_demo

    path, stopped_by = run_demo(asked.out, asked.seed, asked.steps)
    if stopped_by is not None:
        print(f"stopped by {stopped_by}; everything is saved; the same command continues")
        return exit_code(stopped_by)
    started = Path(sys.argv[0])  # after `make demo`, devote is not on the PATH
    command = started if started.name == "devote" and which("devote") is None else "devote"
    print(f"wrote {path}\nwatch how they explored, in the browser: {command} watch {asked.out}")
    return 0


@dataclass(frozen=True)
class Demo:
    """DEVOTE and SAC in the spiral maze, without rewards, on the desk preset."""

    out: Path = Path("runs/demo")
    """Directory of the runs and the figure."""
    seed: int = 0
    """Seed of both agents."""
    steps: int | None = None
    """Environment steps of each agent, the preset's by default; rounded up to whole chunks."""


# The arguments of `devote train`.


def parse_train(words: list[str]) -> tuple[Any, Any]:
    """The run and all arguments of `devote train`; settings that are not given come from the file
    after --config, then from the preset."""
    named, config, words = _early(words)
    env = task_of(named["env"])
    agent = choice("the agent", named["agent"], AGENTS)
    preset = choice("the preset", named["preset"], PRESETS)
    import tyro

    from devote import presets
    from devote.core.settings import with_values
    from devote.envs.gymnasium import GymnasiumSettings
    from devote.run import Run

    base = presets.PRESETS[preset](env, agent)
    if isinstance(base.env, GymnasiumSettings) and env != named["env"]:
        base = replace(base, env=replace(base.env, id=named["env"]))
    base = with_values(base, {n: v for n, v in config.items() if n not in named})
    flags: list[tuple[str, Any, str, Any]] = [
        ("agent", str, f"One of {', '.join(AGENTS)}.", agent),
        ("preset", str, f"One of {', '.join(PRESETS)}.", preset),
        ("seed", int, "The first seed.", base.seed),
        ("seeds", int, "How many seeds run as one program.", base.seeds),
        ("steps", int, STEPS, base.steps),
        ("devices", int | None, DEVICES, None),
        ("out", Path | None, "Run directory.", None),
        ("print_config", bool, "Print all settings, train nothing.", False),
        ("watch", bool, "Show the run in the browser while it trains.", False),
        ("tensorboard", bool, "Write TensorBoard events as well.", False),
        ("wandb", bool, "Log the metrics to W&B as well.", False),
    ]
    explained = [
        (f"{name}_name" if name == "agent" else name, _flag(kind, name, text), value)
        for name, kind, text, value in flags
    ]
    parts = {"task": base.env, "learner": base.agent, "loop": base.loop}
    settings = [(name, type(value), value) for name, value in parts.items()]
    command = make_dataclass("Train", [*explained, *settings], frozen=True)
    asked: Any = tyro.cli(
        command,
        args=[str(_number(word)) for word in words],
        prog=f"devote train {named['env']}",
        description=f"Train {agent} in {named['env']}; defaults are the preset `{preset}`.",
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
    return run, asked


def describe(run: Any, directory: Path) -> str:
    """The run in words: its preset, what differs from it, and how long it may take."""
    from devote import presets
    from devote.experiments.comparison import TrainingCell
    from devote.experiments.durations import Durations, in_words

    lines = [
        f"{run.agent_name} in {task_name(run)}, preset {run.preset}, seed {run.seed}"
        + (f" to {run.seed + run.seeds - 1}" if run.seeds > 1 else "")
        + f", {run.steps:,} steps ({run.whole_steps:,} in whole chunks), in {directory}"
    ]
    difference = run.difference(presets.PRESETS[run.preset](run.env_name, run.agent_name))
    for name, (value, default) in difference.items():
        if name not in ("seed", "seeds", "id"):
            lines.append(f"  {name} = {value} (preset: {default})")
    if (seconds := Durations.known(Path("runs")).seconds(TrainingCell(run))) is not None:
        lines.append(f"time: about {in_words(run.seeds * seconds)} of updates on one CPU core")
    return "\n".join(lines)


def task_name(run: Any) -> str:
    """The task as it was typed."""
    return str(getattr(run.env, "id", run.env_name))


def default_name(run: Any) -> str:
    """The default run directory: task, agent, preset, seed, and a hash of the settings that differ
    from the preset's."""
    from devote import presets
    from devote.core.settings import digest
    from devote.loops.run_dir import MAY_CHANGE

    plain = replace(presets.PRESETS[run.preset](run.env_name, run.agent_name), steps=run.steps)
    changed = run.difference(plain).items()
    unnamed = ("id", "seed", *(path.split(".")[-1] for path in MAY_CHANGE))
    told = {name: value for name, (value, _) in changed if name not in unnamed}
    ending = f"-{digest(told)[:6]}" if told else ""
    task = re.sub("[^A-Za-z0-9_.-]", "_", task_name(run))
    return f"{task}-{run.agent_name}-{run.preset}-{run.seed}{ending}"


def _early(words: list[str]) -> tuple[dict[str, str], dict[str, Any], list[str]]:
    """What decides which settings there are (env, agent, preset), the settings in the file after
    --config, and the other arguments."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("agent", "preset", "config"):
        first.add_argument(f"--{name}", nargs="?", const="", default=argparse.SUPPRESS)
    typed, others = first.parse_known_args(words)
    named = vars(typed)
    config = _config(Path(named.pop("config"))) if "config" in named else {}
    if others and not others[0].startswith("-"):
        named["env"] = others.pop(0)
    named = {n: str(config[n]) for n in ("env", "agent", "preset") if n in config} | named
    if "env" not in named:
        raise UserError("an environment after `devote train`", "none", "try: devote train spiral")
    return {"agent": "devote", "preset": "desk"} | named, config, others


def _config(path: Path) -> dict[str, Any]:
    """The settings in a JSON or YAML file."""
    fix = "give a JSON or YAML file of settings by name; --print-config writes one"
    if not path.is_file():
        raise UserError("a file after --config", path, fix)
    if path.suffix not in (".yaml", ".yml"):
        from devote.core.durable import read_table

        table: Any = read_table(path, fix)
    else:
        import yaml

        try:
            table = yaml.safe_load(path.read_text())
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UserError(f"YAML in {path}", f"{error!s:.80}", fix) from error
        if not isinstance(table, dict):
            raise UserError(f"a table in {path}", type(table).__name__, fix)
    return {str(name): _number(value) for name, value in table.items()}


def _number(value: Any) -> Any:
    """Numbers as people write them: 3e-4, which YAML takes for text, and 1e6 for an integer."""
    if isinstance(value, list):
        return [_number(one) for one in value]
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]{1,2}", value):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def config_of(run: Any) -> str:
    """All settings of a run as JSON for `--config`."""
    from devote.core.settings import flat

    table = {"env": task_name(run), "agent": run.agent_name, "preset": run.preset}
    known = ("env_name", "agent_name", "preset", "id")
    return json.dumps(table | {n: v for n, v in flat(run).items() if n not in known}, indent=2)


def _flag(kind: Any, name: str, text: str) -> Any:
    import tyro

    return Annotated[kind, tyro.conf.arg(name=name.replace("_", "-"), help=text)]
