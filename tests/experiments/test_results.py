"""What a study shows of runs on this disk and in its files, which keep what they hold whenever the
process that writes them is killed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pretended import ASKED, pretend

from devote.core.errors import UserError
from devote.experiments import results
from devote.experiments.commands import study_of
from devote.experiments.comparison import Study
from devote.experiments.results import (
    RecordedRun,
    Results,
    RunLine,
    collect,
    final_value,
    metric_of,
    read_files,
    write,
    write_files,
)
from devote.experiments.study_report import figure_of, write_report


def test_recorded_runs_stay_when_their_directories_are_gone(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    table = (out / "table.csv").read_text()
    empty = replace(study, root=tmp_path / "nowhere")
    write_report(empty, out, "devote compare")
    assert (out / "table.csv").read_text() == table
    assert "20 of 20 runs are there" in (out / "README.md").read_text()
    identities = {cell.identity for cell in study.runs().values()}
    assert figure_of(empty).recorded(out) == identities
    assert not figure_of(study).recorded(out)
    # a run that is here goes before what was recorded
    cell = empty.runs()["spiral", "sac", 0]
    pretend(cell, [0.2, 0.9])
    found = collect(empty, out)
    assert found.of("spiral", "sac")[0].final == 0.9
    assert len(found.elsewhere) == 19
    assert not found.set_aside


def test_damaged_files_of_a_study_and_lost_metrics_are_named(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    whole = (out / "runs.csv").read_text()
    for damaged in (whole.replace(",final,", ",end,"), whole.replace(",smoke,4000,", ",smoke,x,")):
        (out / "runs.csv").write_text(damaged)
        with pytest.raises(UserError, match=r"curves per task in .*out; .*delete .*runs\.csv"):
            collect(study, out)
    (out / "runs.csv").write_text(whole)
    curves = (out / "spiral.csv").read_text()
    (out / "spiral.csv").write_text(curves.splitlines()[0] + "\n")
    with pytest.raises(UserError, match="curves per task"):
        collect(study, out)
    (out / "spiral.csv").unlink()
    with pytest.raises(UserError, match=r"spiral\.csv"):
        collect(study, out)
    (out / "spiral.csv").write_text(curves)
    outside = tmp_path / "elsewhere.csv"
    outside.write_text(curves)
    for name in (str(outside.with_suffix("")), "../elsewhere", "runs", "table", ".", "a" * 300):
        (out / "runs.csv").write_text(whole.replace("\nspiral,", f"\n{name},"))
        with pytest.raises(UserError, match="tasks whose names are letters"):
            write(collect(study, out), out)
        assert outside.read_text() == curves
    lost = study.runs()["spiral", "sac", 0].folder / "metrics.csv"
    lost.unlink()
    with pytest.raises(UserError, match=r"metrics of the run in .*metrics\.csv"):
        collect(study, tmp_path / "new")


@pytest.mark.parametrize("sealed", [True, False])
def test_metrics_of_a_finished_run_are_all_there_and_its_own(
    study: Study, tmp_path: Path, sealed: bool
) -> None:
    cell = study.runs()["spiral", "sac", 0]
    path, record = cell.folder / "metrics.csv", json.loads(cell.record.read_text())
    if not sealed:  # as records from before have it
        record = {name: value for name, value in record.items() if name not in ("seal", "logged")}
        cell.record.write_text(json.dumps(record))
    header, *rows = path.read_text().splitlines()
    seeds = [f"{header},seed", *(f"{row},1" for row in rows)]
    cases = {
        "rows up to step 2666 only": [[header, *rows[:-1]]],
        "not in the order": [[header, *rows[::-1]], [header, *rows, rows[-1]]],
        "rows of another seed": [seeds],
        "rows up to step 0 only": [[header]],
        "numbers in column step": [[header, *rows, rows[-1].replace("4000", "nan")]],
    }
    if sealed:
        cases["changed since"] = [[header, rows[0].replace("0.1", "0.9"), *rows[1:]]]
    for words, texts in cases.items():
        for lines in texts:
            path.write_text("\n".join(lines) + "\n")
            with pytest.raises(UserError, match=words):
                collect(study, tmp_path / "new")
    path.write_text("\n".join([header, *rows, "5000,0.9,1,2.0"]) + "\n")  # being gone on with
    assert collect(study, tmp_path / "new").of("spiral", "sac")[0].final == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [("settings", None), ("steps", "many"), ("finished", 3), ("kinds", 1), ("machine", "\ud800")],
)
def test_a_record_that_was_edited_is_refused_by_name(
    study: Study, tmp_path: Path, name: str, value: object
) -> None:
    cell = study.runs()["spiral", "sac", 0]
    record = json.loads(cell.record.read_text())
    cell.record.write_text(json.dumps(record | {name: value}))
    with pytest.raises(UserError, match=r"record\.json"):
        collect(study, tmp_path / "new")


def test_runs_recorded_with_other_settings_are_counted_and_not_shown(
    study: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    sea, maze = study.tasks
    other = replace(sea, changes=(("size", "7"),))
    changed = replace(study, tasks=(other, maze), root=tmp_path / "nowhere")
    for _ in range(2):  # drawn again, it is the same
        write_report(changed, out, "devote compare")
        found = collect(changed, out)
        assert {path.stem for path in out.glob("*.csv")} == {"runs", "table", "spiral"}
        assert {line.task for line in found.lines} == {"spiral"}
        assert [line.task for line in found.set_aside] == ["deep_sea_size_6"] * 10
        assert "deep_sea" not in (out / "table.csv").read_text()
        assert "deep_sea" not in (out / "runs.csv").read_text()
        readme = (out / "README.md").read_text()
        assert "10 of 20 runs are there" in readme
        assert "10 more (in deep_sea_size_6) were recorded with other settings" in readme
        assert "devote is above sac" not in readme
    back = collect(replace(study, root=tmp_path / "nowhere"), out)  # nothing was lost
    assert (len(back.lines), back.set_aside) == (20, ())
    # a new run takes the place of the old one
    pretend(changed.runs()["deep_sea_size_6", "sac", 0], [0.2, 0.9])
    found = collect(changed, out)
    assert [line.final for line in found.of("deep_sea_size_6", "sac")] == [0.9]
    assert len(found.set_aside) == 9


def test_runs_recorded_with_another_budget_are_cut_or_left_out(
    study: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    gone = replace(study, root=tmp_path / "nowhere")
    sea, maze = gone.tasks
    longer = replace(sea, changes=(*sea.changes, ("steps", "4001")))
    found = collect(replace(gone, tasks=(longer, maze)), out)
    assert {line.task for line in found.lines} == {"spiral"}
    shorter = replace(gone, tasks=(replace(sea, changes=(*sea.changes, ("steps", "2000"))), maze))
    first, *_ = collect(shorter, out).lines
    assert (first.steps, first.final, first.seconds) == (2666, 0.3, 1.3)
    write_report(shorter, out, "devote compare")  # the files keep the whole run
    assert "2,666" in (out / "README.md").read_text()
    assert collect(gone, out).lines == collect(study, tmp_path / "new").lines


def test_runs_that_are_not_asked_for_any_more_are_kept(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    gone = replace(study, root=tmp_path / "nowhere")
    fewer = replace(gone, scale=replace(gone.scale, seeds=3), methods=gone.methods[:1])
    for _ in range(2):
        write_report(fewer, out, "devote compare")
        found = collect(fewer, out)
        assert {(line.method, line.seed) for line in found.lines} == {
            ("devote", seed) for seed in range(3)
        }
        assert len(found.set_aside) == 14
    write_report(replace(gone, tasks=gone.tasks[:1]), out, "devote compare")
    back = collect(gone, out)
    assert (back.lines, back.set_aside) == (collect(study, tmp_path / "new").lines, ())


def test_a_run_from_before_a_default_was_changed_counts_nowhere_and_is_kept(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, key = tmp_path / "out", ("deep_sea_size_6", "sac", 0)
    write_report(study, out, "devote compare")
    cell = study.runs()[key]
    settings = asdict(cell.run)
    settings["loop"]["batch_size"] += 1
    (cell.folder / "settings.json").write_text(json.dumps(settings))
    record = json.loads(cell.record.read_text())
    cell.record.write_text(json.dumps(record | {"settings": settings}))
    assert cell.outdated()
    results = collect(study, out)
    assert [line.seed for line in results.of(*key[:2])] == [1, 2, 3, 4]
    assert [(line.task, line.method, line.seed) for line in results.set_aside] == [key]
    monkeypatch.setattr(
        "devote.loops.train.train", lambda plan: SimpleNamespace(stopped_by="a test")
    )
    cell.make()
    assert not cell.outdated()
    assert (cell.folder.parent / f"{cell.folder.name}.outdated0" / "metrics.csv").is_file()


def test_final_value_of_a_return_is_the_mean_of_the_last_tenth() -> None:
    steps, values = np.arange(1, 101.0), np.arange(1, 101.0)
    assert final_value("rollout/ep_rew_mean", steps, values) == pytest.approx(95.0)
    assert final_value("explore/coverage", steps, values) == 100
    values[80:] = np.nan  # cut out of a longer run, which was evaluated later
    assert final_value("eval/mean_reward", steps, values) == 80
    values[40:] = np.nan
    assert np.isnan(final_value("eval/mean_reward", steps, values))
    assert np.isnan(final_value("eval/mean_reward", steps, values * np.nan))


def test_return_is_the_exploitation_actor_s_where_it_was_evaluated() -> None:
    study, some = study_of(ASKED), np.array([np.nan, 1.0])
    logged = {"eval/mean_reward": some, "rollout/ep_rew_mean": some}
    assert metric_of(study, logged) == "eval/mean_reward"
    assert metric_of(study, logged | {"eval/mean_reward": some * np.nan}) == "rollout/ep_rew_mean"
    assert metric_of(study, logged | {"explore/coverage": some}) == "explore/coverage"


def test_averages_are_over_the_whole_budget(study: Study, tmp_path: Path) -> None:
    scores = collect(study, tmp_path).scores("deep_sea_size_6", "devote")
    np.testing.assert_allclose(scores.final, 0.8 + 0.01 * np.arange(5))
    np.testing.assert_allclose(scores.average, (1.2 + 0.02 * np.arange(5)) / 3)


def test_a_metric_that_finished_runs_do_not_have_is_called_one(
    study: Study, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="the name of a metric; got 'explore/coverge'"):
        collect(replace(study, metric="explore/coverge"), tmp_path)


@pytest.mark.parametrize("value", [1.25e-6, 123456.0, np.inf, 0.5])
def test_curves_keep_their_digits(value: float, tmp_path: Path) -> None:
    line = RunLine("sea", "sac", 0, "desk", 1, "x", value, 1.0, "", "", "", "")
    write_files([RecordedRun(line, {"step": np.array([1.0]), "x": np.array([value])})], tmp_path)
    assert read_files(tmp_path)[line.key].columns["x"] == [value]


def entry(task: str, method: str, value: float) -> RecordedRun:
    line = RunLine(task, method, 0, "desk", 1, "x", value, 1.0, "", "", "", "")
    return RecordedRun(line, {"step": np.array([1.0]), "x": np.array([value])})


def test_a_kill_while_files_are_written_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [entry("sea", "sac", 1.0), entry("sea", "rnd", 2.0), entry("maze", "sac", 3.0)]
    after = [entry("sea", "sac", 1.0), entry("sea", "rnd", 5.0), entry("moon", "sac", 4.0)]
    writes = count_writes(monkeypatch)
    write_files(before, tmp_path / "whole")
    write_files(after, tmp_path / "whole")
    for survived in range(len(writes)):
        out = tmp_path / str(survived)
        write_files(before, out)
        with dying_after(monkeypatch, survived):
            write_files(after, out)
        found = read_files(out)  # whatever is there, is whole
        assert found["sea", "sac", 0].columns["x"] == [1.0]
        for one in found.values():
            assert one.line.final == one.columns["x"]


def test_a_kill_while_runs_come_back_from_aside_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {e.line.key: e for e in (entry("sea", "sac", 1.0), entry("sea", "rnd", 2.0))}
    one = {key: e for key, e in both.items() if key[1] == "sac"}
    writes = count_writes(monkeypatch)
    write(Results(one, both), tmp_path / "whole")
    write(Results(both, both), tmp_path / "whole")
    for survived in range(len(writes)):
        out = tmp_path / str(survived)
        write(Results(one, both), out)
        with dying_after(monkeypatch, survived):
            write(Results(both, both), out)
        assert read_files(out).keys() == both.keys()


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files as they are written."""
    written, real = [], results.atomic_write_text

    def noting(path: Path, text: str) -> None:
        written.append(path)
        real(path, text)

    monkeypatch.setattr(results, "atomic_write_text", noting)
    return written


@contextmanager
def dying_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> Iterator[None]:
    """The process ends before the next file, where there is one."""
    left, real = [writes], results.atomic_write_text

    def mortal(path: Path, text: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(path, text)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(results, "atomic_write_text", mortal)
        yield
