"""What the paper says about coverage, sentence by sentence."""

from devote.experiments.claims import Claim

MAZES, SEAS, RUNNER = ("spiral", "u_maze"), ("deep_sea_20", "deep_sea_50"), ("cheetah",)
ALL = (*MAZES, *SEAS, *RUNNER)
RIVAL_CLAIMS = (
    Claim(
        "DEVOTE outperforms all baselines on PointMaze and Cheetah",
        "devote",
        "above",
        ("sac", "rnd", "thompson", "sombrl"),
        (*MAZES, *RUNNER),
    ),
    Claim(
        "DEVOTE matches the strongest baseline on DeepSea",
        "devote",
        "not below",
        ("sac", "rnd", "thompson", "sombrl"),
        SEAS,
    ),
    Claim("RND improves over SAC on DeepSea and Cheetah", "rnd", "above", ("sac",), SEAS + RUNNER),
    Claim("RND fails on PointMaze", "rnd", "not above", ("sac",), MAZES),
    Claim("TS performs well on PointMaze", "thompson", "above", ("sac",), MAZES),
    Claim("TS is of little benefit elsewhere", "thompson", "not above", ("sac",), SEAS + RUNNER),
    Claim("SOMBRL improves over SAC everywhere", "sombrl", "above", ("sac",), ALL),
)
"""Section 5, Insight 1; PointMaze there is the spiral, DeepSea of size 50."""
ABLATION_CLAIMS = (
    Claim("TUD improves coverage in all environments", "devote", "above", ("devote-no-tud",), ALL),
    Claim(
        "On PointMaze and Cheetah, all components contribute",
        "devote",
        "above",
        ("devote-no-rfn", "devote-no-resets", "devote-no-tud-opt"),
        (*MAZES, *RUNNER),
    ),
    Claim(
        "On DeepSea almost any random prior is useful",
        "devote",
        "not above",
        ("devote-no-rfn",),
        SEAS,
    ),
    Claim(
        "On PointMaze, soft resets matter most",
        "devote-no-resets",
        "below",
        ("devote-no-rfn", "devote-no-tud", "devote-no-tud-opt"),
        MAZES,
    ),
    Claim(
        "On Cheetah resets contribute less",
        "devote-no-resets",
        "above",
        ("devote-no-rfn", "devote-no-tud", "devote-no-tud-opt"),
        RUNNER,
    ),
)
"""Section 5, Insight 2."""
