"""Where things are kept that can be made again: compiled programs and downloads."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Our folder in the user's cache; an empty variable is an unset one."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "devote" / name


def use_compilation_cache() -> None:
    """Keep compiled programs between processes."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(cache_folder("xla")))
