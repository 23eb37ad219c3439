"""The GP task, the gap splits and the loader of tables."""

import http.client
import os
from pathlib import Path

import numpy as np
import pytest

from devote.regression import uci
from devote.regression.data import GpTask, draw_function, draw_task, gap, gap_dataset, unit_scale


def test_gp_task_is_the_paper_s() -> None:
    draw = draw_task(3)
    train, inside, outside = draw.split
    assert (len(train.x), len(inside.x), len(outside.x)) == (150, 150, 250)
    assert draw.grid_x.shape == draw.grid_f.shape == (1000,)
    both = np.concatenate([train.x, inside.x]).reshape(6, 50)
    assert np.all(np.ptp(both, axis=1) <= 0.2)
    np.testing.assert_allclose(both[:3].mean(axis=1), both[3:].mean(axis=1), atol=0.06)
    assert 0.08 < np.std(train.y - train.f) < 0.12
    assert outside.x.min() < 1
    assert outside.x.max() > 9
    at_train = np.interp(train.x[:, 0], draw.grid_x, draw.grid_f)
    np.testing.assert_allclose(at_train, train.f, atol=0.02)


def test_gp_functions_have_the_kernel() -> None:
    generator = np.random.default_rng(0)
    values = np.stack(
        [draw_function(generator, np.array([0.0, 1.0, 3.0]), 1.0) for _ in range(4000)]
    )
    expected = np.exp(-0.5 * np.array([[0, 1, 9], [1, 0, 4], [9, 4, 0]]))
    np.testing.assert_allclose(np.cov(values.T), expected, atol=0.06)


def test_draws_differ_and_repeat() -> None:
    small = GpTask(cluster_size=5, outside=5, grid=20)
    np.testing.assert_array_equal(draw_task(1, small).grid_f, draw_task(1, small).grid_f)
    assert np.abs(draw_task(1, small).grid_f - draw_task(2, small).grid_f).max() > 0.1


def test_gap_holds_out_the_middle_third_of_one_input() -> None:
    x = np.random.default_rng(0).uniform(size=(90, 3))
    for number in range(4):
        train, inside, outside = gap(x, number)
        column = x[:, number % 3]
        assert (len(train), len(inside), len(outside)) == (54, 6, 30)
        assert sorted([*train, *inside, *outside]) == list(range(90))
        low, high = column[outside].min(), column[outside].max()
        rest = column[np.concatenate([train, inside])]
        assert not np.any((rest > low) & (rest < high))


def test_ties_are_broken_by_row_order() -> None:
    x = np.zeros((300, 1))
    assert sorted(gap(x, 0)[2]) == list(range(100, 200))
    unstable = np.argsort(x[:, 0], kind="quicksort")[100:200]
    np.testing.assert_array_equal(gap(x, 0, "quicksort")[2], unstable)


def test_splits_carry_inputs_targets_and_reference_together() -> None:
    x = np.random.default_rng(0).uniform(size=(30, 2))
    for split in gap_dataset(x, x[:, 0], x[:, 1], 3).splits:
        for points in split:
            np.testing.assert_array_equal(points.x, np.stack([points.y, points.f], axis=1))


def test_scaling_by_percentiles() -> None:
    table = np.arange(1001.0)[:, None] * [1.0, -2.0]
    scaled = unit_scale(table)
    np.testing.assert_allclose(scaled[500], 0.5)
    assert np.all(scaled[:10, 0] == 0)
    assert np.all(scaled[-10:, 0] == 1)
    with pytest.raises(ValueError, match=r"columns \[1\]"):
        unit_scale(np.stack([np.arange(9.0), np.ones(9)], axis=1))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> np.ndarray:
    """A table called yacht, nowhere to be found yet, offered by a server below `tmp_path`."""
    import hashlib

    values = np.round(np.random.default_rng(0).uniform(size=(8, 3)), 3)
    served = tmp_path / "served.txt"
    np.savetxt(served, np.column_stack([values, np.ones(8)]), fmt="%.3f")
    digest = hashlib.sha256(uci.as_csv(values).encode()).hexdigest()
    wrong = tmp_path / "wrong.txt"
    np.savetxt(wrong, values + 1)
    sources = tuple(uci.Source(path.as_uri()) for path in (tmp_path / "none", wrong, served))
    monkeypatch.setitem(uci.TABLES, "yacht", uci.Table((8, 3), digest, sources))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVOTE_DATA", raising=False)
    return values


def test_download_is_checked_cut_and_kept(tiny: np.ndarray, tmp_path: Path) -> None:
    np.testing.assert_array_equal(uci.load("yacht"), tiny)
    assert (tmp_path / "cache/devote/uci/yacht.csv").is_file()
    (tmp_path / "served.txt").unlink()
    np.testing.assert_array_equal(uci.load("yacht", download=False), tiny)


def test_directory_comes_before_variable_before_cache(
    tiny: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/yacht.csv").write_text(uci.as_csv(tiny))
    monkeypatch.setenv("DEVOTE_DATA", str(tmp_path / "mine"))
    np.testing.assert_array_equal(uci.load("yacht", download=False), tiny)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/yacht.csv").write_text(uci.as_csv(tiny + 1))
    with pytest.raises(ValueError, match="SHA-256"):
        uci.load("yacht", tmp_path / "other")


def test_directories_as_people_write_them(
    tiny: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/yacht.csv").write_text(uci.as_csv(tiny))
    np.testing.assert_array_equal(uci.load("yacht", str(tmp_path / "mine"), False), tiny)
    monkeypatch.setenv("DEVOTE_DATA", "~/mine")
    np.testing.assert_array_equal(uci.load("yacht", download=False), tiny)
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setenv("DEVOTE_DATA", "")
    with pytest.raises(ValueError, match=r"target last\) at \S*cache/devote/uci/yacht\.csv"):
        uci.load("yacht", download=False)


def test_a_broken_connection_is_a_reason_to_try_the_next_source(
    tiny: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = uci.urllib.request.urlopen
    for error in (http.client.IncompleteRead(b"1"), ConnectionResetError("reset")):
        failures = [error]

        def flaky(url: str, timeout: float, failures: list[Exception] = failures) -> object:
            if failures:
                raise failures.pop()
            return opened(url, timeout=timeout)

        monkeypatch.setattr(uci.urllib.request, "urlopen", flaky)
        np.testing.assert_array_equal(uci._download("yacht", uci.TABLES["yacht"], []), tiny)


def test_a_file_with_a_header_is_named(tiny: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "yacht.csv").write_text("a,b,c\n" + uci.as_csv(tiny))
    with pytest.raises(ValueError, match=r"yacht\.csv.*header"):
        uci.load("yacht", tmp_path)


def test_offline_it_says_which_file_to_put_where(tiny: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"put yacht\.csv .*mine/yacht\.csv.*DEVOTE_DATA"):
        uci.load("yacht", tmp_path / "mine", download=False)
    (tmp_path / "served.txt").unlink()
    with pytest.raises(ValueError, match=r"none.*wrong\.txt.*served\.txt"):
        uci.load("yacht")


def test_unknown_table_is_refused() -> None:
    with pytest.raises(ValueError, match="concrete"):
        uci.load("boston")
    with pytest.raises(ValueError, match=r"did you mean yacht\?"):
        uci.load("yaht")


@pytest.mark.skipif("DEVOTE_DATA" not in os.environ, reason="needs the UCI tables")
@pytest.mark.parametrize("name", uci.TABLES)
def test_real_tables(name: str) -> None:
    table = uci.load(name, download=False)
    rows, columns = uci.TABLES[name].shape
    assert table.shape == (rows, columns - len(uci.TABLES[name].constant))
    assert np.ptp(unit_scale(table), axis=0).min() == 1
