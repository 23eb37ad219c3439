"""Cheap compilation: small programs, compiled with few optimisations and kept between runs."""

import jax
import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's own cache folder; being here puts `tiny` on the path."""
    jax.config.update("jax_disable_most_optimizations", True)
    if config.pluginmanager.hasplugin("cacheprovider"):
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("jax")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
