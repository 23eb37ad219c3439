"""Agents that are DEVOTE with other settings: with one part taken out (paper, section 5, Insight 2)
or put in, and RND as the paper's baseline.

The authors' code also swaps the mean bonus for the standard deviation over indices where it takes
out TUD or TUD-OPT. Here a part is taken out alone; the `_ucb` variants make both changes.
"""

from dataclasses import replace

from devote.agents.devote import DevoteSettings


def no_rfn(devote: DevoteSettings) -> DevoteSettings:
    """ReLU networks as prior and corrector instead of random Fourier networks."""
    return replace(devote, prior="relu")


def no_resets(devote: DevoteSettings) -> DevoteSettings:
    """No soft resets."""
    return replace(devote, reset_strength=0.0)


def no_tud_opt(devote: DevoteSettings) -> DevoteSettings:
    """Signed residuals are propagated (TUD) instead of their magnitudes (TUD-OPT)."""
    return replace(devote, propagation="signed")


def no_tud_opt_ucb(devote: DevoteSettings) -> DevoteSettings:
    """Signed residuals, read as the standard deviation over indices."""
    return replace(no_tud_opt(devote), bonus="std")


def no_tud(devote: DevoteSettings) -> DevoteSettings:
    """Settings of `JointTd`: one squared error of the sum, so the task value has a plain head."""
    return replace(no_tud_opt(devote), sac=replace(devote.sac, value_head="scalar"))


def no_tud_ucb(devote: DevoteSettings) -> DevoteSettings:
    """Joint TD, read as the standard deviation over indices."""
    return replace(no_tud(devote), bonus="std")


def devote_plus(devote: DevoteSettings) -> DevoteSettings:
    """`devote-plus`, ours: the corrector in closed form."""
    return replace(devote, corrector="exact")


def true_counts(devote: DevoteSettings) -> DevoteSettings:
    """The ceiling of coverage: 1 / sqrt(visits) of the true bins instead of a learned novelty."""
    return replace(devote, corrector="counts", num_indices=1)


def rnd(devote: DevoteSettings) -> DevoteSettings:
    """One ReLU prior over states and no soft resets: random network distillation in DEVOTE's terms
    (paper, appendix A.3), where the prior is the random target network and the corrector the
    predictor. `rnd_classic` has the parts of the original."""
    return replace(
        devote,
        num_indices=1,
        bootstrap_probability=1.0,  # one index has nobody to differ from
        prior="relu",
        prior_sees_action=False,
        corrector_sees_action=False,
        reset_strength=0.0,
    )
