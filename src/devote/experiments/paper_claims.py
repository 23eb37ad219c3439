"""What the paper says about coverage, sentence by sentence."""

from devote.experiments.claims import Claim

MAZE, SEA, RUNNER = ("spiral",), ("deep_sea_50",), ("cheetah",)
U_MAZE, SMALL_SEA = ("u_maze",), ("deep_sea_20",)
ALL, OURS = MAZE + SEA + RUNNER, U_MAZE + SMALL_SEA
RIVAL_CLAIMS = (
    Claim(
        "DEVOTE outperforms all baselines on PointMaze and Cheetah",
        "devote",
        "above",
        ("sac", "rnd", "thompson", "sombrl"),
        MAZE + RUNNER,
        U_MAZE,
    ),
    Claim(
        "DEVOTE matches the strongest baseline on DeepSea",
        "devote",
        "not below",
        ("sac", "rnd", "thompson", "sombrl"),
        SEA,
        SMALL_SEA,
    ),
    Claim(
        "SAC achieves poor coverage throughout (our reading: below DEVOTE)",
        "sac",
        "below",
        ("devote",),
        ALL,
        OURS,
    ),
    Claim(
        "RND improves over SAC on DeepSea and Cheetah",
        "rnd",
        "above",
        ("sac",),
        SEA + RUNNER,
        SMALL_SEA,
    ),
    Claim("RND fails on PointMaze", "rnd", "little above", ("sac",), MAZE, U_MAZE),
    Claim(
        "TS performs well on PointMaze (our reading: above SAC)",
        "thompson",
        "above",
        ("sac",),
        MAZE,
        U_MAZE,
    ),
    Claim(
        "TS provides little benefit elsewhere",
        "thompson",
        "little above",
        ("sac",),
        SEA + RUNNER,
        SMALL_SEA,
    ),
    Claim("SOMBRL improves over SAC everywhere", "sombrl", "above", ("sac",), ALL, OURS),
)
"""Section 5, Insight 1."""
ABLATION_CLAIMS = (
    Claim(
        "TUD improves coverage in all environments",
        "devote",
        "above",
        ("devote-no-tud",),
        ALL,
        OURS,
    ),
    Claim(
        "On PointMaze and Cheetah, all components contribute",
        "devote",
        "above",
        ("devote-no-rfn", "devote-no-resets", "devote-no-tud", "devote-no-tud-opt"),
        MAZE + RUNNER,
        U_MAZE,
    ),
    Claim(
        "On DeepSea almost any random prior is useful",
        "devote",
        "little above",
        ("devote-no-rfn",),
        SEA,
        SMALL_SEA,
    ),
    Claim(
        "On PointMaze, soft resets matter most",
        "devote-no-resets",
        "below",
        ("devote-no-rfn", "devote-no-tud", "devote-no-tud-opt"),
        MAZE,
        U_MAZE,
    ),
    Claim(
        "On Cheetah resets contribute less",
        "devote-no-resets",
        "above",
        ("devote-no-rfn", "devote-no-tud", "devote-no-tud-opt"),
        RUNNER,
    ),
    Claim(
        "TUD-OPT improves performance on both PointMaze and Cheetah",
        "devote",
        "above",
        ("devote-no-tud-opt",),
        MAZE + RUNNER,
        U_MAZE,
    ),
)
"""Section 5, Insight 2."""
