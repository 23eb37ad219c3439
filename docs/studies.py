"""Writes docs/studies/*.md, a page per study, and docs/paper.md, what of the paper holds here, from
the files in results/. Run it after making a figure."""

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devote.experiments import paper_figures as paper
from devote.experiments.comparison import SCALES
from devote.experiments.durations import Durations, in_words, time_left
from devote.experiments.policy_evaluation import LENGTHS
from devote.experiments.results import Results, read_files
from devote.experiments.verdicts import (
    Claim,
    Verdict,
    claim_rows,
    compare,
    overall,
)
from devote.regression.table import markdown_table

ROOT = Path(__file__).parent.parent
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
REPORTED = tuple(name for name in reversed(SCALES) if name != "smoke")  # the largest first
CORES = 2
UCI = "mean of UCI"
QUESTIONS = {
    "fig:main_coverage": "Does DEVOTE cover more states than its rivals where there is no reward?",
    "fig:ablation_components_coverage": "What does each part of DEVOTE contribute to coverage?",
    "fig:length_scales_devote": "How much depends on the length scale of the prior, and can one "
    "do without tuning it?",
    "fig:summary": "How do the methods do over all tasks, with equal weights?",
    "fig:plasticity": "Do soft resets keep the explorer able to learn, and does coverage need it?",
    "fig:app-plasticity-snapshots": "Where do agents with and without soft resets go, and what do "
    "novelty and its propagation look like there?",
    "fig:main_normalized_return": "Does DEVOTE solve control tasks with sparse goals?",
    "fig:app-control-coverage": "How far do the agents explore in the control tasks?",
    "fig:environments": "What do the tasks look like?",
    "fig:value_est_cartpole": "Is the value of a frozen policy, and its uncertainty, better "
    "learned by TUD than by joint TD? On Cartpole swing-up.",
    "fig:app-cartpole-slices": "What do value and uncertainty look like along slices of Cartpole?",
    "fig:app-cheetah-calibration": "Is the value of a frozen policy, and its uncertainty, better "
    "learned by TUD than by joint TD? On Cheetah run.",
    "tab:app-cartpole-anchors": "Through which states of Cartpole do the slices pass?",
    "tab:app-cheetah-anchors": "Through which states of Cheetah do the slices pass?",
    "fig:gp-calibration": "Which models know where they do not know, on a draw of a GP?",
    "fig:prior-comparison": "What do functions drawn from the priors look like?",
    "tab:calibration_main": "Which models know where they do not know, on nine datasets?",
    "calibration_ablations": "How do length scale, width and depth of a prior matter?",
    "calibration_authors": "What comes out with the settings of the authors' code?",
    "calibration_variants": "Which of the authors' choices makes the difference?",
    "calibration_report": "What does the calibration report say of three models?",
    "deep_sea": "How does coverage of DeepSea change with its depth?",
    "exploration": "How do DEVOTE and SAC do as mazes and seas grow?",
    "tuning": "Which settings did the trials of each agent prefer?",
}


class Finding(NamedTuple):
    """What results say of a claim: a verdict, the numbers behind it, and the figure's label."""

    verdict: str
    evidence: str
    label: str
    scale: str = ""


Judge = Callable[[], Finding]


@cache
def folder(label: str, scale: str) -> Path:
    """Where the committed results of a figure are."""
    return paper.FIGURES[label](scale, Path("nowhere")).out


@cache
def best_scale(label: str) -> str | None:
    """The largest scale with results; None where nothing was run."""
    return next(
        (s for s in scales_of(label) if (ROOT / folder(label, s) / "README.md").is_file()), None
    )


def scales_of(label: str) -> list[str]:
    """Scales that a figure has, the largest first."""
    return [s for s in REPORTED if s != "long" or label in paper.LONG_LABELS]


@cache
def recorded(label: str, scale: str) -> Results:
    """All runs in the files of a figure."""
    return Results(read_files(ROOT / folder(label, scale)))


def judged(label: str, *claims: Claim, average: bool = False) -> Judge:
    """Claims on the runs of a study, at the end of the budget or on average over it."""

    def judge() -> Finding:
        scale = best_scale(label)
        if scale is None:
            return Finding(Verdict.NOT_RUN, "", label)
        results = recorded(label, scale)
        rows = [(c, row) for c in claims for row in claim_rows(c, c.tasks, results)]
        found = [(c, row, row.average if average else row.end) for c, row in rows]
        when = "on average over the budget" if average else "at the end"
        numbers = "; ".join(
            f"{row.task}: {c.method} - {row.other} {difference}"
            for c, row, (difference, _) in found
        )
        verdict = overall([verdict for *_, (_, verdict) in found])
        return Finding(verdict, f"{when}, with 95 % intervals: {numbers}", label, scale)

    return judge


def all_of(label: str, claims: Mapping[str, Claim], *starts: str) -> Judge:
    """The claims of a figure whose sentences begin like these."""
    chosen = [claim for words, claim in claims.items() if words.startswith(starts)]
    assert len(chosen) == len(starts), starts
    return judged(label, *chosen)


def calibrated(score: str, best: str, *pairs: tuple[str, str]) -> Judge:
    """One model above others in a score of the calibration table, on the given columns."""

    def judge() -> Finding:
        label, words = "tab:calibration_main", {"auroc_y": "AUROC", "rho_f": "correlation"}[score]
        scale = best_scale(label)
        if scale is None:
            return Finding(Verdict.NOT_RUN, "", label)
        with open(ROOT / folder(label, scale) / "table.csv", newline="") as file:
            table = [row for row in csv.DictReader(file) if row["score"] == score]
        verdicts, numbers = [], []
        for other, dataset in pairs:
            (mine, error), (theirs, noise) = (mean_of(table, m, dataset) for m in (best, other))
            gap, reach = mine - theirs, 2.1 * np.hypot(error, noise)  # t of two times ten splits
            verdicts.append(sign(gap - reach, gap + reach))
            numbers.append(f"{dataset}: {best} - {other} {gap:+.3f} ± {reach:.3f}")
        evidence = f"{words}, with 95 % intervals: {'; '.join(numbers)}"
        return Finding(overall(verdicts), evidence, label, scale)

    return judge


def mean_of(table: Sequence[Mapping[str, str]], model: str, dataset: str) -> tuple[float, float]:
    """A model's score with its standard error, on a dataset or over the eight UCI sets."""
    rows = [
        row
        for row in table
        if row["model"] == model and (row["dataset"] == dataset or dataset == UCI)
        if row["dataset"] != "gp" or dataset == "gp"
    ]
    means, errors = (np.array([float(r[n]) for r in rows]) for n in ("mean", "standard_error"))
    return float(means.mean()), float(np.sqrt((errors**2).sum()) / len(rows))


def sign(low: float, high: float) -> Verdict:
    """Whether an interval is above 0."""
    return Verdict.HOLDS if low > 0 else Verdict.FAILS if high <= 0 else Verdict.OPEN


def critics(label: str, *scores: str, lengths: Sequence[str] = LENGTHS) -> Judge:
    """TUD above joint TD in scores of the critics, over length scales and seeds. `error` is how far
    the value of starts is from Monte Carlo, which is to be lower."""

    def judge() -> Finding:
        scale = best_scale(label)
        path = ROOT / folder(label, scale or "desk") / "critics.csv"
        if scale is None or not path.is_file():
            return Finding(Verdict.NOT_RUN, "", label)
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        runs = recorded(label, scale).shown
        verdicts, numbers = [], []
        for score in scores:
            found: dict[str, list[float]] = {"TD": [], "TUD": []}
            for row in rows:
                loss, length = row["method"].split()
                if length in lengths:
                    key = row["task"], row["method"], int(row["seed"])
                    away = abs(runs[key].line.final - float(row["monte_carlo"]))
                    found[loss].append(-away if score == "error" else float(row[score]))
            shift = compare(np.array(found["TUD"]), np.array(found["TD"]))
            verdicts.append(sign(shift.shift.low, shift.shift.high))
            words = "closeness to Monte Carlo" if score == "error" else score
            numbers.append(f"{words}: TUD - TD {shift.difference}")
        shown = f"length scales {', '.join(lengths)}; {'; '.join(numbers)}"
        return Finding(overall(verdicts), shown, label, scale)

    return judge


RIVALS, PARTS = "fig:main_coverage", "fig:ablation_components_coverage"
GP = [("boot-ens", "gp"), ("mlp-100x2", "gp")]
SMALL = ("0.5", "1")
CLAIMS: dict[str, list[tuple[str, Judge]]] = {
    "Calibration": [
        (
            "On a GP task an ensemble and an MLP prior are confident between the clusters of data; "
            "an RFN prior is not (read as: it has the higher AUROC)",
            calibrated("auroc_y", "rfn-0.25", *GP),
        ),
        (
            "Over eight UCI sets the RFN prior with length scale 0.25 has the highest AUROC",
            calibrated(
                "auroc_y", "rfn-0.25", *[(m, UCI) for m in ("boot-ens", "mlp-100x2", "rfn-0.5")]
            ),
        ),
        (
            "Over eight UCI sets the bootstrapped ensemble has the highest correlation of error "
            "and uncertainty",
            calibrated(
                "rho_f", "boot-ens", *[(m, UCI) for m in ("mlp-100x2", "rfn-0.25", "rfn-0.5")]
            ),
        ),
    ],
    "Propagation": [
        (
            "On Cartpole TUD improves AUROC and correlation across length scales",
            critics("fig:value_est_cartpole", "auroc", "correlation"),
        ),
        (
            "On Cartpole TUD follows the Monte Carlo value more closely",
            critics("fig:value_est_cartpole", "error"),
        ),
        (
            "On Cheetah TUD improves AUROC and correlation from a length scale of 2.5 on",
            critics(
                "fig:app-cheetah-calibration",
                *("auroc", "correlation"),
                lengths=[n for n in LENGTHS if n not in SMALL],
            ),
        ),
    ],
    "Plasticity": [
        (words, judged("fig:plasticity", claim)) for words, claim in paper.PLASTICITY_CLAIMS.items()
    ],
    "Exploration": [
        (
            "DEVOTE outperforms all baselines on PointMaze and Cheetah and matches the strongest "
            "on DeepSea",
            all_of(RIVALS, paper.RIVAL_CLAIMS, "DEVOTE outperforms", "DEVOTE matches"),
        ),
        (
            "SAC is poor throughout; RND helps in DeepSea and Cheetah but not in PointMaze, "
            "Thompson sampling in PointMaze but little elsewhere",
            all_of(
                RIVALS,
                paper.RIVAL_CLAIMS,
                "SAC achieves",
                "RND improves",
                "RND fails",
                "TS performs",
                "TS provides",
            ),
        ),
        (
            "SOMBRL improves over SAC everywhere",
            all_of(RIVALS, paper.RIVAL_CLAIMS, "SOMBRL improves"),
        ),
    ],
    "Ablations": [
        (
            "TUD helps everywhere; on PointMaze and Cheetah all parts contribute, soft resets most "
            "on PointMaze and least on Cheetah; on DeepSea almost any prior will do",
            judged(PARTS, *paper.ABLATION_CLAIMS.values()),
        )
    ],
    "Length scales": [
        (
            "The best length scale is 1 on PointMaze and 7.5 on Cheetah; on DeepSea it hardly "
            "matters",
            judged("fig:length_scales_devote", *paper.LENGTH_CLAIMS.values()),
        )
    ],
    "Control": [
        *(
            (words, judged("fig:main_normalized_return", claim))
            for words, claim in paper.CONTROL_CLAIMS.items()
        ),
        (
            "DEVOTE expands coverage fastest in both control tasks; RND covers less of "
            "PickAndPlace than SAC",
            judged(
                "fig:app-control-coverage", *paper.CONTROL_COVERAGE_CLAIMS.values(), average=True
            ),
        ),
    ],
}
"""The paper's claims, in its order."""


def name_of(label: str) -> str:
    """The page of a figure, without its ending."""
    return label.split(":")[-1]


@cache
def findings() -> list[tuple[str, str, Finding]]:
    """Every claim by topic, and what the results say of it."""
    return [(topic, words, judge()) for topic, mine in CLAIMS.items() for words, judge in mine]


def claims_page() -> str:
    """docs/paper.md."""
    rows = []
    for number, (topic, words, found) in enumerate(findings(), 1):
        link = f"[{found.label}](studies/{name_of(found.label)}.md)"
        scale = f" at `{found.scale}`" if found.scale else ""
        rows.append((number, topic, words, f"**{found.verdict}**", found.evidence, link + scale))
    header = ("", "about", "the paper says", "here", "evidence", "study")
    return (
        "# What of the paper holds here\n\nWritten by `docs/studies.py` from the files in "
        "[results](../results), at the largest scale that was run. A claim **holds** where every "
        "comparison behind it does, and **does not hold** where one of them fails; it is **open** "
        "where the interval allows both. `desk` has smaller networks, larger steps and fewer of "
        "them than the paper ([settings](settings.md)), so a claim that fails there may hold at "
        "the paper's own scale. What differs and why: [coverage](coverage.md), "
        "[calibration](calibration.md), [control](control.md).\n\n"
        f"{markdown_table(header, rows)}\n"
    )


def moved(text: str, place: Path) -> str:
    """Text of a README with its links made relative to docs/studies."""
    up = Path("../..") / place.relative_to(ROOT)
    return re.sub(r"\]\((?!http)([^)]+)\)", lambda found: f"]({up / found[1]})", text)


def results_of(label: str, scale: str) -> str | None:
    """What the README of a scale's results says, without its title and the table of claims."""
    place = ROOT / folder(label, scale)
    if not (place / "README.md").is_file():
        return None
    title, *parts = (place / "README.md").read_text().strip().split("\n\n")
    parts = [part for part in parts if not part.startswith(("| claim |", "## "))]
    extra = place / "table.md"
    if not any(part.startswith("|") for part in parts) and extra.is_file():
        parts += extra.read_text().strip().split("\n\n")[1:]
    pictures = sorted(path.name for path in place.glob("*.png"))
    shown = "\n\n".join(parts)
    parts += [f"![{name}]({name})" for name in pictures if f"]({name})" not in shown]
    where = f"All numbers: [{place.relative_to(ROOT)}](README.md)."
    caption = [title.removeprefix("# ")] if ", scale " in title else []
    return moved("\n\n".join([*caption, *parts, where]), place)


def study_page(label: str) -> str:
    """The page of a figure: question, command, what came out at every scale, what it means."""
    figure = paper.FIGURES[label]("desk", Path("nowhere"))
    command = f"    devote figure {label} --scale SCALE"
    parts = [f"# {figure.title}", f"`{label}`. {QUESTIONS[label]}", command]
    for scale in scales_of(label):
        found = results_of(label, scale)
        if found is None:
            parts += [f"## {scale}", f"Not run yet; {expected(label, scale)}."]
        else:
            parts += [f"## {scale}", found]
    claims = [
        f"- {words}: **{found.verdict}**" + (found.evidence and f" ({found.evidence})")
        for _, words, found in findings()
        if found.label == label
    ]
    if claims:
        parts += ["## What the paper says of it", "\n".join(claims)]
    return "\n\n".join(parts) + "\n"


def expected(label: str, scale: str) -> str:
    """How long two cores would take, from runs that were measured."""
    cells = paper.FIGURES[label](scale, Path("nowhere")).cells()
    durations = Durations.known(Path("nowhere"))
    seconds = time_left([(durations.seconds(cell), 0.0) for cell in cells], CORES)
    if not cells:
        return "it takes seconds"
    if seconds is None:
        return f"{len(cells)} cells, of which none was ever timed"
    return f"{len(cells)} cells, about {in_words(seconds)} on two cores"


def index_page() -> str:
    """docs/studies/overview.md."""
    rows = []
    for label in QUESTIONS:
        scale = best_scale(label)
        state = (
            f"run at `{scale}`" if scale else f"not run yet: {expected(label, 'desk')} at `desk`"
        )
        rows.append((f"[`{label}`]({name_of(label)}.md)", QUESTIONS[label], state))
    rows += [(f"`{label}`", shows, "") for label, shows in paper.ABSENT.items()]
    return (
        "# Every figure and table\n\nWritten by `docs/studies.py`. Labels without a colon "
        "are ours.\n\n"
        f"{markdown_table(('label', 'question', 'state'), rows)}\n"
    )


def pages() -> Iterable[tuple[Path, str]]:
    """Every page with its text."""
    yield DOCS / "paper.md", claims_page()
    yield DOCS / "studies" / "overview.md", index_page()
    for label in QUESTIONS:
        yield DOCS / "studies" / f"{name_of(label)}.md", study_page(label)


if __name__ == "__main__":
    (DOCS / "studies").mkdir(exist_ok=True)
    for path, text in pages():
        path.write_text(text)
