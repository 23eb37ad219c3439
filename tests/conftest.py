"""Cheap compilation: small programs, compiled with few optimisations and kept between runs."""

import gc
import os
import signal
from functools import cache

import jax
import pytest

SETTINGS = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.05,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
# read when JAX first compiles
EMITTERS = "--xla_cpu_use_fusion_emitters=false " if jax.__version_info__ < (0, 11) else ""
QUICK = (
    f"{EMITTERS}--xla_cpu_parallel_codegen_split_count=1"
    " --xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=1"
)
ASKED = {
    "services": "needs a browser, SLURM, Ray or the like",
    "slow": "the same law as in the other cases, of an agent or task that takes long to compile",
}
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's own cache folder, also those of programs that tests start;
    being here puts `tiny` on the path."""
    started_in_background = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: signal.SIG_DFL,
    }
    for number, usual in started_in_background.items():
        if signal.getsignal(number) is signal.SIG_IGN:  # inherited, as from nohup
            signal.signal(number, usual)  # tests send it to their programs
    gc.set_threshold(50_000, 20, 50)  # tracing makes many objects, and few cycles
    settings: dict[str, object] = dict(SETTINGS)
    if config.pluginmanager.hasplugin("cacheprovider"):
        home = config.cache.mkdir("home")
        os.environ["XDG_CACHE_HOME"] = str(home)
        settings["jax_compilation_cache_dir"] = str(home / "devote" / "xla")
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests against services and those that compile for long are run when they are asked for."""
    for marker, reason in ASKED.items():
        if marker in config.getoption("markexpr"):
            continue
        skipped = pytest.mark.skip(reason=f"{reason}: make test-services")
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(skipped)


@pytest.fixture(autouse=True, scope="session")
def each_function_is_drawn_once() -> None:
    """The studies of tests share their draws of the GP task; to factorise a kernel is work."""
    from devote.regression import data

    data.draw_task = cache(data.draw_task)
