"""RND as the paper's baseline: a single ReLU prior, its prediction error propagated by a value.

The paper's appendix A.3 reads random network distillation (Burda et al., 2018) in DEVOTE's terms:
the prior is the random target network, the corrector the predictor, |g(s) + c(s)| the error that a
value accumulates. `rnd_classic` is the same idea with the parts of the original.
"""

from dataclasses import replace

from devote.agents.devote import DevoteSettings


def rnd(devote: DevoteSettings) -> DevoteSettings:
    """DEVOTE with one ReLU prior over states and no soft resets: novelty by distillation alone."""
    return replace(
        devote,
        num_indices=1,
        bootstrap_probability=1.0,  # one index has nobody to differ from
        prior="relu",
        prior_sees_action=False,
        corrector_sees_action=False,
        reset_strength=0.0,
    )
