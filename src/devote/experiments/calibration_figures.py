"""The calibration study's figures and tables: its cells are fits of one model to one dataset."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments.cells import machine, read_record
from devote.experiments.durations import in_words
from devote.experiments.runner import with_needs
from devote.experiments.study_report import Figure, drawing
from devote.figures import calibration_plots as plots
from devote.figures.style import BLUE, ORANGE, Look
from devote.measure.calibration import Predict, calibration_report, over_sets
from devote.regression import table as tables
from devote.regression.data import GP, PAPER, draw_task, tested_rows
from devote.regression.models import AUTHORS, AUTO, ENSEMBLE, LENGTHS, REFERENCE, ModelSpec
from devote.regression.priors import RFN
from devote.regression.study import PRESETS, CalibrationCell, CalibrationStudy
from devote.regression.table import AUROC, MLP_PRIOR, RHO, TABLE_MODELS, ModelScores, RecordedScores

FIGURE_MODELS = (REFERENCE, ENSEMBLE, MLP_PRIOR, LENGTHS[0])  # paper, and the reference
MODELS = tuple(model for model in TABLE_MODELS if model != REFERENCE)
FOURIER = tuple(model for model in MODELS if model.kind == "rfn")
CHANGED_ALONE = {
    "readout": FOURIER,
    "trains": FOURIER,
    "init": MODELS,
    "ties": MODELS,
    "ensemble_loss": (ENSEMBLE,),
}
"""Settings that are changed to the authors' one at a time, and the models that they touch."""
SHARE = "sigma_share"
EMPTY = "| - "
"""An entry of the table of variants whose cells are not finished."""


class Page(NamedTuple):
    """What is drawn, what is printed on it, the command for it, and where it goes."""

    study: CalibrationStudy
    caption: str
    command: str
    out: Path

    def save(self, figure: plots.Figure, name: str, remark: str = "") -> Path:
        """A picture with its caption in small print."""
        return plots.save(figure, self.caption + remark, self.out / name)


Draw = Callable[[Page], list[Path]]


def study_at(scale: str, root: Path) -> CalibrationStudy:
    """smoke: the GP task in seconds; desk: the paper's settings on small sets; paper: all sets."""
    preset = "smoke" if scale == "smoke" else "paper"
    study = replace(PRESETS[preset][1], out=root / "calibration" / preset)
    return replace(study, scope="fast") if scale == "desk" else study


def authors_at(scale: str, root: Path) -> CalibrationStudy:
    """The study at a scale with every setting of the authors' code."""
    base = study_at(scale, root)
    if scale == "smoke":
        variant = replace(AUTHORS, features=base.variant.features)
        return replace(base, variant=variant, out=base.out.with_name(f"{base.out.name}-authors"))
    return replace(base, preset="authors", variant=AUTHORS, out=base.out.with_name("authors"))


def calibration_table(scale: str, root: Path) -> Figure:
    """tab:calibration_main: scores of every model on every dataset, beside the paper's."""
    return _figure("tab:calibration_main", "Calibration", scale, study_at(scale, root), draw_table)


def calibration_authors(scale: str, root: Path) -> Figure:
    """The table once more, with the settings of the authors' code."""
    title, study = "Calibration, authors' settings", authors_at(scale, root)
    return _figure("calibration_authors", title, scale, study, draw_table)


def calibration_ablations(scale: str, root: Path) -> Figure:
    """Length scales of the RFN prior, widths and depths of the MLP prior."""
    study = replace(study_at(scale, root), rows="ablations")
    return _figure("calibration_ablations", "Calibration by prior", scale, study, _draw_ablations)


def gp_calibration(scale: str, root: Path) -> Figure:
    """fig:gp-calibration: mean and band of three models and the exact GP on one draw."""
    models = tuple(map(str, FIGURE_MODELS))
    study = replace(study_at(scale, root), datasets=(GP,), models=models)
    return _figure("fig:gp-calibration", "Uncertainty on a GP task", scale, study, _draw_gp)


def prior_comparison(scale: str, root: Path) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""

    def draw(page: Page) -> list[Path]:
        figure = plots.prior_comparison(page.study.write_drawings()["priors"])
        return [page.save(figure, "prior-comparison.png")]

    shown, study = "10 functions each", study_at(scale, root)
    return _figure("fig:prior-comparison", "Prior functions", scale, study, draw, shown)


def report_figure(scale: str, root: Path) -> Figure:
    """The calibration report of three models fitted to the first draw of the GP task."""
    title, shown = "The report on a GP, a forest and our own model", "draw 0 of the GP task"
    return _figure("calibration_report", title, scale, study_at(scale, root), _draw_reports, shown)


def calibration_variants(scale: str, root: Path) -> Figure:
    """Mean AUROC and correlation of every model by variant, on the datasets of the scale."""
    studies = variant_studies(scale, root)
    parts = {name: study.cells() for name, study in studies.items()}

    def draw(page: Page) -> list[Path]:
        found = {
            name: [with_shares(study, scores) for scores in study.scores()]
            for name, study in studies.items()
        }
        if not any(found.values()):
            return []
        text = variants_markdown(found, page.study.chosen_datasets())
        write_variants(page.out / "table.md", f"{page.caption}\n\n{text}")
        return [page.out / "table.md"]

    label, title = "calibration_variants", "Calibration by variant"
    return _figure(label, title, scale, studies["paper"], draw, parts=parts)


def study_figure(study: CalibrationStudy) -> Figure:
    """A study of any settings: its table, and what the figures of the GP task show, beside its
    cells."""

    def draw(out: Path, _: str) -> list[Path]:
        if GP in study.chosen_datasets():
            study.write_drawings()
        scores = study.scores()
        atomic_write_text(out / "table.md", tables.as_markdown(scores, study.preset))
        atomic_write_text(out / "table.csv", tables.as_csv(scores))
        return [out / "table.md", out / "table.csv"]

    return Figure("calibration", "Calibration", study.preset, study.out, _by_dataset(study), draw)


def _figure(
    label: str,
    title: str,
    scale: str,
    study: CalibrationStudy,
    draw: Draw,
    shown: str = "",
    parts: Mapping[str, Sequence[CalibrationCell]] | None = None,
) -> Figure:
    """A figure of calibration cells, with a README that says what they took; `shown` is said of one
    that has no cells. Drawn from recorded numbers, it leaves the README of their runs."""
    if parts is None:
        parts = {} if shown else _by_dataset(study)
    cells = [cell for part in parts.values() for cell in part]
    more = f", preset {study.preset}, {shown or f'{study.splits} splits or draws'}"

    def effort() -> str | None:
        return _effort(cells) if any(cell.finished() for cell in cells) else None

    def drawn(out: Path, caption: str) -> list[Path]:
        return draw(Page(study, caption, f"devote figure {label} --scale {scale}", out))

    told = effort if cells else None
    return drawing(label, title, scale, drawn, parts, more=more, effort=told)


def _by_dataset(study: CalibrationStudy) -> dict[str, list[CalibrationCell]]:
    parts: dict[str, list[CalibrationCell]] = {}
    for cell in study.cells():
        parts.setdefault(cell.dataset, []).append(cell)
    return parts


def _effort(asked: Sequence[CalibrationCell]) -> str:
    """How many cells are there, when and where they were made, and how long it took."""
    everything = with_needs(asked)
    results = [result for cell in everything if (result := cell.result()) is not None]
    records = [record for cell in everything if (record := read_record(cell.record)) is not None]
    machines = "; ".join(sorted({record["machine"] for record in records})) or machine()
    days = sorted({record["finished"] for record in records}) or ["unknown"]
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    processor = in_words(sum(result["cpu_seconds"] for result in results))
    seconds, cores = wall_time([tuple(s) for result in results for s in result["sittings"]])
    return (
        f"{sum(cell.finished() for cell in asked)} of {len(asked)} cells, finished {period} on "
        f"{machines}. With the separate means and all that they need ({len(results)} fits and "
        f"compositions): {processor} of processor time, {in_words(seconds)} of wall time on "
        f"{cores} core{'s' if cores > 1 else ''}."
    )


def wall_time(periods: Sequence[tuple[float, ...]]) -> tuple[float, int]:
    """Seconds in at least one of the periods (start, end), and how many overlap at most."""
    events = sorted([(start, 1) for start, _ in periods] + [(end, -1) for _, end in periods])
    total, running, most, since = 0.0, 0, 0, 0.0
    for moment, change in events:
        if running:
            total += moment - since
        running, since = running + change, moment
        most = max(most, running)
    return total, most


def draw_table(page: Page) -> list[Path]:
    """The table of what is finished; refused where one is there that holds more."""
    cells, table = page.study.scores(), page.out / "table.csv"
    if not cells:
        return []
    if table.is_file():
        with open(table, newline="") as file:
            held = {(row["model"], row["dataset"]) for row in csv.DictReader(file)}
        lost = sorted(held - {(str(cell.model), cell.dataset) for cell in cells})
        lost = [pair for pair in lost if pair[1] != "mean"]
        if lost:
            refuse_less(table, f"all but {len(lost)}, such as {' on '.join(lost[0])}")
    text = f"{page.caption}\n\n{tables.as_markdown(cells, page.study.preset)}"
    atomic_write_text(page.out / "table.md", text)
    atomic_write_text(table, tables.as_csv(cells))
    atomic_write_text(page.out / "splits.csv", tables.splits_csv(cells))
    return [page.out / "table.md", table, page.out / "splits.csv"]


def refuse_less(table: Path, got: str) -> NoReturn:
    """A table stays as it is when there is less to write."""
    fix = "run them all, name another --out, or delete the table"
    raise UserError(f"on this disk every cell that is in {table}", got, fix)


def _draw_gp(page: Page) -> list[Path]:
    cells = page.study.cells()
    if not all(cell.finished() for cell in cells):
        return []
    task = page.study.write_drawings()["task"]
    figure = plots.gp_calibration(task, {str(cell.model): cell.arrays() for cell in cells})
    bands = f"bands of {plots.BAND:g} standard deviations"
    remark = f"; draw 0 of {page.study.splits}, {bands}"
    return [page.save(figure, "gp-calibration.png", remark), *draw_table(page)]


def _draw_ablations(page: Page) -> list[Path]:
    """From the cells on this disk, else from the recorded table."""
    written, table = draw_table(page), page.out / "table.csv"
    cells: Sequence[ModelScores | RecordedScores] = page.study.scores()
    if not written and table.is_file():
        cells = tables.read_csv(table.read_text())
    if not cells:
        return []
    shown = {AUROC: "AUROC of misfits", RHO: "correlation of |f - mu| and sigma"}
    for kind, xlabel in (("rfn", "length scale"), ("mlp", "width")):
        scores = {words: ablation_lines(cells, kind, score) for score, words in shown.items()}
        figure, remark = plots.ablation(scores, xlabel), "; bars: one standard error"
        written.append(page.save(figure, f"ablation-{kind}.png", remark))
    return written


def ablation_lines(
    cells: Sequence[ModelScores | RecordedScores], kind: str, score: str
) -> list[plots.Series]:
    """Scores against length scale, or against width for each depth: of the mean over the UCI sets
    that all models of the kind have, so that "auto" is held against the same sets, and of the GP
    task."""
    models = list(dict.fromkeys(cell.model for cell in cells if cell.model.kind == kind))
    found = {(c.model, c.dataset): c.estimate(score) for c in cells if c.model in models}
    found = {key: value for key, value in found.items() if np.isfinite(value.mean)}
    uci = [n for n in tables.UCI if all((model, n) in found for model in models)]
    lines: dict[str, plots.Series] = {}
    for model in models:
        name = f"{len(uci)} UCI set{'s' if len(uci) > 1 else ''}"
        sets = {name: over_sets([found[model, n] for n in uci])} if uci else {}
        sets |= {"GP task": found[model, GP]} if (model, GP) in found else {}
        start = "auto, " if model == AUTO else "".join(f"depth {d:g}, " for d in model.size[1:])
        for name, estimate in sets.items():
            colour = BLUE if name == "GP task" else ORANGE
            dashes = ":" if model == AUTO else "--" if model.size[1:] == (1,) else "-"
            line = plots.Series(start + name, {}, Look(colour, dashes))
            if model == AUTO:
                lines[line.label] = line._replace(points=estimate)
            else:
                points = lines.setdefault(line.label, line).points
                points[model.size[0]] = estimate  # type: ignore[index]
    return list(lines.values())


def _draw_reports(page: Page) -> list[Path]:
    """Numbers and pictures of the reports on scikit-learn's GP, a forest and our own model."""
    train, inside, outside = draw_task(0).split
    found: dict[str, Any] = {"note": page.caption, "command": page.command}
    paths = []
    for name, fit in (("gp", fit_gp), ("forest", fit_forest), ("ours", fit_ours)):
        predict = fit(train.x, train.y, page.study)
        report = calibration_report(
            predict, (inside.x, inside.y), (outside.x, outside.y), slices=(0,), names=("x",)
        )
        found[name] = report.as_dict()
        caption, path = f"{name}; {page.caption}", page.out / f"{name}.png"
        paths.append(plots.save(plots.draw_report(report), caption, path))
    text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    atomic_write_text(page.out / "report.json", text)
    return [*paths, page.out / "report.json"]


def fit_gp(x: np.ndarray, y: np.ndarray, _: CalibrationStudy) -> Predict:
    """scikit-learn's GP with fitted length and noise; its deviation is of observations."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = RBF(PAPER.length_scale) + WhiteKernel(PAPER.noise**2)
    model = GaussianProcessRegressor(kernel).fit(x, y)
    return lambda at: model.predict(at, return_std=True)


def fit_forest(x: np.ndarray, y: np.ndarray, _: CalibrationStudy) -> Predict:
    """A random forest, whose trees are taken for samples."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(100, random_state=0).fit(x, y)
    return lambda at: np.stack([tree.predict(at) for tree in model.estimators_])


def fit_ours(x: np.ndarray, y: np.ndarray, study: CalibrationStudy) -> Predict:
    """Priors and correctors of length 1, with the training of the study."""
    from devote.regression.estimator import EpistemicRegressor

    training = study.training
    model = EpistemicRegressor(
        RFN(1.0, study.variant.features),
        members=study.members,
        epochs=training.epochs,
        batch_size=training.batch_size,
        rate=training.rate,
        random_state=0,
    ).fit(x, y)
    return lambda at: model.predict(at, return_std=True)


def variant_studies(scale: str, root: Path) -> dict[str, CalibrationStudy]:
    """The study by variant: the paper's, each of the authors' choices alone, and all of them."""
    models = tuple(map(str, MODELS))
    base = replace(study_at(scale, root), models=models)
    studies = {"paper": base}
    for name, touched in CHANGED_ALONE.items():
        variant = replace(base.variant, **{name: vars(AUTHORS)[name]})
        out = base.out.with_name(f"{base.out.name}-{name}")
        studies[name] = replace(base, variant=variant, models=tuple(map(str, touched)), out=out)
    return studies | {"authors": replace(authors_at(scale, root), models=models)}


def write_variants(path: Path, text: str) -> None:
    """Write the table of variants; refused over one with fewer empty entries."""
    lost = text.count(EMPTY) - path.read_text().count(EMPTY) if path.is_file() else 0
    if lost > 0:
        refuse_less(path, f"fewer, by {lost} of its entries")
    atomic_write_text(path, text)


def with_shares(study: CalibrationStudy, cell: ModelScores) -> ModelScores:
    """A cell with what its sigma keeps where there is data: by split the median inside the training
    distribution over the median in the gap."""
    std = CalibrationCell(study, cell.dataset, cell.model).arrays()["std"]
    inside, outside = tested_rows(cell.dataset)
    medians = [np.median(part, axis=1) for part in np.split(std, [inside, inside + outside], 1)[:2]]
    return cell._replace(splits={**cell.splits, SHARE: (medians[0] / medians[1]).tolist()})


def variants_markdown(found: dict[str, list[ModelScores]], datasets: Sequence[str]) -> str:
    """Scores, then shares, of the UCI sets together and of the GP task; variant by model."""
    uci = [name for name in datasets if name != GP]
    sets = {f"Mean of {', '.join(uci)}": uci, "GP task": [GP] if GP in datasets else []}
    parts = ["Each entry: AUROC (misfits err against y) / correlation of |f - mu| and sigma.\n"]
    parts += [_block(title, found, names, (AUROC, RHO)) for title, names in sets.items() if names]
    parts.append(
        "Each entry: median sigma inside the training distribution over that in the gap.\n"
    )
    parts += [_block(title, found, names, (SHARE,)) for title, names in sets.items() if names]
    return "\n".join(parts)


def _block(
    title: str, found: dict[str, list[ModelScores]], datasets: Sequence[str], scores: Sequence[str]
) -> str:
    rows = [
        [variant, *(_entry(variant, cells, model, datasets, scores) for model in MODELS)]
        for variant, cells in found.items()
    ]
    if SHARE not in scores:
        theirs = [[tables.paper_mean(m, score, datasets) for score in scores] for m in MODELS]
        texts = [" / ".join("-" if v is None else f"{v:.3f}" for v in pair) for pair in theirs]
        rows.append(["printed in the paper", *texts])
    return f"{title}\n\n{tables.markdown_table(['variant', *map(str, MODELS)], rows)}\n"


def _entry(
    variant: str,
    cells: Sequence[ModelScores],
    model: ModelSpec,
    datasets: Sequence[str],
    scores: Sequence[str],
) -> str:
    if model not in CHANGED_ALONE.get(variant, MODELS):
        return "as paper"
    mine = {cell.dataset: cell for cell in cells if cell.model == model}
    if any(name not in mine for name in datasets):
        return "-"
    means = [over_sets([mine[name].estimate(score) for name in datasets]) for score in scores]
    return " / ".join(tables.with_error(mean) for mean in means)
