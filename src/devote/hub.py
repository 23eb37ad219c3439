"""Models on the Hugging Face Hub: safetensors, a table in JSON and a model card; no code."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from devote.core.errors import UserError, extra
from devote.saved import MODEL, SavedModel, read_model

CARD = """---
{data}
---
# {agent} in {task}

A {agent} agent of devote {version}, preset `{preset}`, seed {seed}, after {steps:,} environment
steps.{score}

```python
from devote import agent_class

agent = agent_class("{agent}").from_hub("{repo}"{env})
action = agent.predict(obs)
```

Settings, spaces and hashes are in `model/`; weights are safetensors, and loading runs no code.
"""


def push(model: Any, repo: str, private: bool, episodes: int, token: str | None) -> str:
    """Upload a model with its card; the address of the commit."""
    with extra("hub"):
        from huggingface_hub import HfApi
    api = HfApi(token=token)
    score = model.evaluate(episodes) if episodes else None
    with TemporaryDirectory() as folder:
        model.save(folder)
        (Path(folder) / "README.md").write_text(card(repo, read_model(Path(folder)), score))
        api.create_repo(repo, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message=f"{model.agent_name} after {model.steps:,} steps",
            delete_patterns=f"{MODEL}/*",  # files of the model before
        )
    return str(done.commit_url)


def card(repo: str, saved: SavedModel, score: dict[str, float] | None) -> str:
    """The README of a model: metadata that the Hub reads, and how to load it."""
    from importlib.metadata import version

    from huggingface_hub import EvalResult, ModelCardData

    task, named = saved.spec.name, saved.source() is not None
    told, results = "", None
    if score is not None:
        value = f"{score['mean_reward']:.2f} +/- {score['std_reward']:.2f}"
        told = f" Mean reward over {score['episodes']:.0f} episodes: {value}."
        kind = "reinforcement-learning"
        results = [EvalResult(kind, task, task, "mean_reward", value, metric_name="mean_reward")]
    data = ModelCardData(
        library_name="devote",
        tags=["reinforcement-learning", "deep-reinforcement-learning", "exploration", task],
        model_name=f"{saved.run.agent_name}-{task}",
        eval_results=results,
    )
    return CARD.format(
        data=data.to_yaml(),
        agent=saved.run.agent_name,
        task=task,
        version=version("devote"),
        preset=saved.run.preset,
        seed=saved.run.seed,
        steps=saved.step,
        score=told,
        repo=repo,
        env="" if named else ", env=...",
    )


def pull(repo: str, folder: str, revision: str | None, token: str | None) -> Path:
    """Download a model, and nothing else of its repository, into a folder."""
    with extra("hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError
    only = f"{MODEL}/*"
    try:
        snapshot_download(
            repo, revision=revision, token=token, local_dir=folder, allow_patterns=only
        )
    except RepositoryNotFoundError as error:
        fix = "check the name; a private one needs a token"
        raise UserError("a repository on the Hub", repo, fix) from error
    return Path(folder)
