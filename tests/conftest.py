"""Cheap compilation: small programs, compiled with few optimisations and kept between runs."""

import os
from functools import cache

import jax
import pytest

SETTINGS = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.05,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
# read when JAX first compiles
QUICK = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    " --xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=1"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's own cache folder, also those of programs that tests start;
    being here puts `tiny` on the path."""
    settings: dict[str, object] = dict(SETTINGS)
    if config.pluginmanager.hasplugin("cacheprovider"):
        home = config.cache.mkdir("home")
        os.environ["XDG_CACHE_HOME"] = str(home)
        settings["jax_compilation_cache_dir"] = str(home / "devote" / "xla")
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


@pytest.fixture(autouse=True, scope="session")
def each_function_is_drawn_once() -> None:
    """The studies of tests share their draws of the GP task; to factorise a kernel is work."""
    from devote.regression import data

    data.draw_task = cache(data.draw_task)
