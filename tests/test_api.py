"""The Python API, from the outside."""

import inspect
import json
import runpy
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import devote
from corridor import SHORT, TINY, Corridor, observations, stacked
from devote import Devote, Sac, check_env
from devote.api import Model
from devote.callbacks import SaveBest
from devote.core.errors import UserError
from devote.core.settings import flat, whole_number
from devote.envs import naming
from tiny import slow_but

EXAMPLE = Path(__file__).parent.parent / "examples" / "ten_lines.py"


@cache
def trained() -> Sac:
    """One small agent for all that only looks."""
    return Sac(Corridor, seed=3, **SHORT).learn(160, progress_bar=False)


def test_predict_speaks_the_environments_language_for_one_and_for_many() -> None:
    agent, rows = trained(), observations(5)
    ones = [agent.predict(row) for row in rows]
    assert all(Corridor.action_space.contains(action) for action in ones)
    np.testing.assert_array_equal(agent.predict(stacked(rows)), ones)
    drawn = [agent.predict(stacked(observations(8)), explore=True) for _ in range(6)]
    assert len({tuple(actions.tolist()) for actions in drawn}) > 1, "exploration is not drawn"
    assert agent.predict(rows[0], deterministic=True) == ones[0]


def test_exploitation_can_be_drawn_from() -> None:
    agent = Devote(Corridor, seed=3, **SHORT)
    batch = stacked(observations(8) * 50)
    np.testing.assert_array_equal(agent.predict(batch), agent.predict(batch, deterministic=True))
    drawn, again = (agent.predict(batch, deterministic=False) for _ in range(2))
    assert (drawn != again).any(), "draws repeat"
    assert 0.2 < np.mean(drawn == 0) < 0.8, "a fresh exploitation actor is near uniform"


def test_predict_refuses_other_shapes() -> None:
    with pytest.raises(UserError, match=r"obs\['at'\] of shape \(\)"):
        trained().predict(stacked(observations(2)) | {"at": np.zeros((2, 2))})


def test_predict_refuses_what_is_no_observation() -> None:
    agent, [row] = trained(), observations(1)
    for missing in ({"far": row["far"]}, np.zeros(10), 7):
        with pytest.raises(UserError, match=r"obs\['at'\] in observations"):
            agent.predict(missing)
    with pytest.raises(UserError, match=r"obs\['at'\].*shape"):
        agent.predict(row | {"at": [[1], 2]})
    with pytest.raises(UserError, match=r"finite observations at obs\['far'\]\[0\]; got nan"):
        agent.predict(row | {"far": np.float32([np.nan])})


def test_evaluation_counts_complete_episodes() -> None:
    found = trained().evaluate(episodes=3)
    assert found["episodes"] == 3
    assert 1 <= found["mean_ep_length"] <= 20
    assert 0 <= found["success_rate"] <= 1


def test_a_saved_model_describes_itself_and_acts_alike(tmp_path: Path) -> None:
    agent, batch = trained(), stacked(observations(9))
    agent.save(tmp_path)
    alone = Sac.load(tmp_path)
    np.testing.assert_array_equal(alone.predict(batch), agent.predict(batch))
    assert (alone.steps, alone.run) == (agent.steps, agent.run)
    with pytest.raises(UserError, match=r"Sac.load\(path, env=...\)"):
        alone.evaluate(1)
    assert Sac.load(tmp_path, Corridor).evaluate(episodes=2) == agent.evaluate(episodes=2)
    with pytest.raises(UserError, match="a model of devote"):
        Devote.load(tmp_path)
    with pytest.raises(UserError, match="trained in"):
        Sac.load(tmp_path, "CartPole-v1")


def test_exports_are_onnx_or_stablehlo(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in .onnx or .stablehlo; got policy.pt"):
        trained().export(tmp_path / "policy.pt")


def test_one_environment_object_trains_is_evaluated_and_goes_on() -> None:
    env = Corridor()
    agent = Sac(env, **SHORT)
    assert agent.run.loop.num_envs == 1
    seen: list[int] = []

    def stop_at_once(row: dict[str, Any]) -> bool:
        seen.append(row["step"])
        return False

    agent.learn(10_000, progress_bar=False, callback=stop_at_once)
    assert seen == [agent.steps]
    assert agent.steps < 10_000
    assert agent.evaluate(episodes=2)["episodes"] == 2
    before = agent.steps
    agent.learn(80, progress_bar=False)
    assert agent.steps >= before + 80


def test_several_callbacks_hear_what_happens_save_the_best_and_stop(tmp_path: Path) -> None:
    heard: list[str] = []

    class Listener:  # need not inherit anything
        def on_start(self, model: Sac) -> None:
            heard.append(f"start {model.steps}")

        def on_evaluation(self, model: Sac, row: dict[str, Any]) -> None:
            heard.append(f"evaluated {row['eval/mean_reward']:.0f}")

        def on_end(self, model: Sac) -> None:
            heard.append("end")

    agent = Sac(Corridor, seed=3, **SHORT | {"eval_interval": SHORT["log_interval"]})
    rows: list[dict[str, Any]] = []
    best = SaveBest(tmp_path / "best", stop_at=-1e9)  # the first evaluation is enough
    agent.learn(400, progress_bar=False, callback=[rows.append, Listener(), best])
    assert [word.split()[0] for word in heard] == ["start", "evaluated", "end"]
    assert len(rows) == 1
    assert best.best == rows[0]["eval/mean_reward"]
    assert agent.steps < 400
    batch = stacked(observations(4))
    saved = Sac.load(tmp_path / "best")
    np.testing.assert_array_equal(saved.predict(batch), agent.predict(batch))


@pytest.mark.parametrize("bad", [7, SaveBest, type("Theirs", (), {"on_step": print})()])
def test_what_is_no_callback_is_refused_before_any_step(bad: Any) -> None:
    agent = Sac(Corridor, seed=3, **SHORT)
    with pytest.raises(UserError, match="a callable or an object with on_start, on_log"):
        agent.learn(80, progress_bar=False, callback=bad)


def test_steps_that_only_fill_the_replay_are_told() -> None:
    agent = Sac(Corridor(), **SHORT)
    with pytest.warns(UserWarning, match="nothing is learned yet: the first .* lower learning_st"):
        agent.learn(1, progress_bar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.learn(80, progress_bar=False)


def test_closing_is_for_once_and_for_all(tmp_path: Path) -> None:
    trained().save(tmp_path)
    Sac.load(tmp_path).close()
    agent = Sac(Corridor(), **SHORT).learn(80, progress_bar=False)
    agent.close()
    agent.close()
    with pytest.raises(UserError, match="closed ones"):
        agent.learn(1_000, progress_bar=False)


def test_a_directory_makes_the_same_lines_go_on(tmp_path: Path) -> None:
    def lines(steps: int) -> Sac:
        agent = Sac(Corridor, directory=tmp_path / "run", **SHORT)
        return agent.learn(steps, progress_bar=False)

    first = lines(160)
    again = lines(160)
    assert again.steps == first.steps
    batch = stacked(observations(9))
    np.testing.assert_array_equal(first.predict(batch), again.predict(batch))
    assert lines(320).steps >= 320
    with pytest.raises(UserError, match=r"asked 0\.5"):
        Sac(Corridor, directory=tmp_path / "run", discount=0.5, **SHORT).learn(160)


def test_tasks_of_ours_by_name() -> None:
    agent = Sac("deep_sea", size=4, **TINY).learn(160, progress_bar=False)
    assert agent.predict(3) in (0, 1)
    assert agent.predict(np.arange(5)).shape == (5,)
    assert agent.evaluate(episodes=2)["mean_ep_length"] == 4


@pytest.mark.parametrize(
    "name",
    slow_but(
        ("CliffWalking-v1",), ("MountainCarContinuous-v0", "CliffWalking-v1", "devote/AntMaze-v0")
    ),
)
def test_the_ten_lines(name: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """The example as it stands, but for smaller networks and shorter episodes."""
    line, small = "Devote(name, seed=0)", "Devote(name, 0, 'smoke', log_interval=80, time_limit=40)"
    example = EXAMPLE.read_text()
    assert line in example
    (tmp_path / "small.py").write_text(example.replace(line, small))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ten_lines.py", name, "160"])
    runpy.run_path("small.py")
    text = capsys.readouterr().out
    assert "'episodes': 10.0" in text
    assert "\nfrom " in text
    assert {path.suffix for path in (tmp_path / "runs").rglob("*") if path.is_file()} == {
        ".json",
        ".safetensors",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lenght_scale": 2.0}, "did you mean length_scale"),
        ({"num_indices": 2.5}, "num_indices to be a value of type int"),
        ({"num_indices": True}, "num_indices"),
        ({"prior": "furier"}, "prior to be one of 'fourier', 'relu'"),
        ({"discount": 2.0}, "discount from 0 to 1"),
        ({"preset": "tiny"}, "a preset among"),
        ({"scale_inputs": 1}, "scale_inputs to be a value of type bool"),
        ({"steps": 10}, r"'steps'; give them to learn"),
        ({"seeds": 5}, "one model for each seed"),
        ({"agent_name": "sac"}, "class of the agent"),
        ({"env_name": "spiral"}, "first argument"),
        ({"id": "CartPole-v1"}, "first argument"),
        ({"seed": None}, "seed to be a value of type int; got None"),
        ({"seed": "0"}, "seed to be a value of type int"),
    ],
)
def test_mistakes_in_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Devote(Corridor, **settings)


def test_environments_that_are_there_already_decide_for_themselves() -> None:
    vector = gymnasium.vector.SyncVectorEnv([Corridor] * 3)
    assert Sac(vector, **SHORT).run.loop.num_envs == 3
    for env in (vector, Corridor()):
        with pytest.raises(UserError, match=r"num_envs [31], as many as there are; got 2"):
            Sac(env, num_envs=2, **SHORT)
        with pytest.raises(UserError, match="because the only environment is busy"):
            Sac(env, eval_interval=80, **SHORT)
    assert Sac(Corridor, num_envs=2, eval_interval=80, **SHORT).run.loop.eval_interval == 80


def test_settings_of_every_kind_are_taken() -> None:
    run = Devote("CartPole-v1", seed=5, length_scale=2, discount=1, num_envs=3, time_limit=7).run
    assert (run.seed, run.agent.length_scale, run.agent.sac.discount) == (5, 2.0, 1.0)
    assert (run.loop.num_envs, run.env.time_limit, run.env.id) == (3, 7, "CartPole-v1")


def test_numbers_of_numpy_are_numbers() -> None:
    number = np.int64(3)
    run = Devote("CartPole-v1", seed=number, num_envs=number, length_scale=np.float32(2)).run
    assert json.loads(json.dumps(flat(run)))["seed"] == 3
    assert (run.loop.num_envs, run.agent.length_scale) == (3, 2.0)


@pytest.mark.parametrize("wrong", [0, -5, 2.5, "10", None, True, np.inf])
def test_steps_and_episodes_are_whole_numbers_above_0(wrong: Any) -> None:
    with pytest.raises(UserError, match="steps to be a whole number above 0"):
        trained().learn(wrong, progress_bar=False)
    with pytest.raises(UserError, match="episodes to be a whole number above 0"):
        trained().evaluate(wrong)


def test_a_number_may_be_written_as_a_float() -> None:
    assert (whole_number("steps", 1e5), whole_number("steps", np.int64(7))) == (100_000, 7)


def test_environments_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match="MountainCarContinuous"):
        Devote("MountainCarContinous-v0")
    with pytest.raises(UserError, match="Gymnasium id, environment"):
        Devote(7)


def test_a_name_in_python_is_imported_and_one_in_a_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typed_here.py").write_text("from corridor import Corridor\n")
    monkeypatch.syspath_prepend(tmp_path)
    agent = Sac("typed_here:Corridor", **SHORT)
    assert agent.env.spec.name == "Corridor"
    agent.save(tmp_path / "model")
    monkeypatch.delitem(naming._TYPED, "typed_here:Corridor")
    monkeypatch.delitem(sys.modules, "typed_here")
    assert Sac.load(tmp_path / "model").source is None
    assert "typed_here" not in sys.modules
    assert Sac.load(tmp_path / "model", "typed_here:Corridor").env.spec == agent.env.spec


def test_the_package_is_light_and_says_what_it_has() -> None:
    code = "import sys, devote; print({'jax', 'gymnasium', 'numpy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
    assert check_env.__module__ == "devote.envs.check"
    with pytest.raises(AttributeError, match="no attribute 'Devot'"):
        _ = devote.Devot


def test_a_type_checker_sees_the_types_of_the_api() -> None:
    assert (Path(devote.__file__).parent / "py.typed").is_file()
    public = [getattr(devote, name) for name in devote.__all__ if name != "__version__"]
    methods = [getattr(Model, name) for name in vars(Model) if name[0] != "_"]
    for one in [*public, *filter(callable, methods)]:
        told = inspect.signature(one)
        assert all(
            p.annotation is not p.empty for p in told.parameters.values() if p.name != "self"
        )
        assert isinstance(one, type) or told.return_annotation is not told.empty, one


def test_any_agent_by_its_name(tmp_path: Path) -> None:
    made = {name: devote.make_agent(name, Corridor, seed=1) for name in ("sac", "devote-plus")}
    assert isinstance(made["sac"], Sac)
    assert isinstance(made["devote-plus"], devote.DevotePlus)
    other = devote.make_agent("rnd-classic", Corridor)
    assert other.run.agent_name == "rnd-classic"
    other.save(tmp_path)
    with pytest.raises(UserError, match=r"agent_class\('rnd-classic'\).load"):
        Sac.load(tmp_path)
    assert devote.agent_class("rnd-classic").load(tmp_path, Corridor).steps == 0
    with pytest.raises(UserError, match="rnd-classic"):
        devote.make_agent("rnd-clasic", Corridor)
