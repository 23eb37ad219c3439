"""Cheap compilation: small programs, compiled with few optimisations and kept between runs."""

import os

import jax
import pytest

# read when JAX first compiles; other programs that tests start inherit it
QUICK = "--xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's own cache folder; being here puts `tiny` on the path."""
    jax.config.update("jax_disable_most_optimizations", True)
    if config.pluginmanager.hasplugin("cacheprovider"):
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
