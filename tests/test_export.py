"""The exported dataset repository, read back by `datasets` and by lm-eval."""

import datasets
import pytest
import yaml
from conftest import evaluate

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results import export as exporting
from lm_eval_epidemia.results.export import export
from lm_eval_epidemia.surveys.catalogue import task

TASK = "epidemia_low_nsduh_heroin_ever_by_age"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """All files of a repository; but for those of one survey, its splits are all the same."""
    same = split(TASK)

    def of_one_survey(task, way):
        return split(task, way) if "_nsduh_" in task else same

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "split", of_one_survey)
        return export(tmp_path_factory.mktemp("export") / "questions")


def test_datasets_loads_a_split(repository, tmp_path):
    found = datasets.load_dataset(
        str(repository), "epidemia_low", split=TASK, cache_dir=str(tmp_path)
    )
    ours = split(TASK)
    assert found.column_names == ours.column_names
    assert found.to_list() == ours.to_list()


def test_the_card_says_what_it_is(repository):
    card = (repository / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    splits = {
        config["config_name"]: [file["split"] for file in config["data_files"]]
        for config in header["configs"]
    }
    assert {name: len(listed) for name, listed in splits.items()} == {
        "epidemia_low": 63,
        "epidemia_high": 44,
        "epidemia_extra": 54,
        "epidemia_low_likelihood": 63,
        "epidemia_high_likelihood": 44,
        "epidemia_extra_likelihood": 54,
        "epidemia_low_stated": 63,
        "epidemia_high_stated": 44,
        "epidemia_extra_stated": 54,
        **{
            f"epidemia_{kind}{form}": sum(one.kind == kind for one in map(task, store.available()))
            for kind in ("marginal", "joint")
            for form in ("", "_likelihood", "_stated")
        },
        "epidemia_high_closed": 32,
        "epidemia_high_rag": 10,
        "epidemia_quick": 2,
        **{
            f"epidemia_intervention{variant}{form}": tasks
            for variant, tasks in (
                ("", 3),
                ("_large", 10),
                ("_substitution", 3),
                ("_retrieval", 3),
                ("_knowledge", 2),
            )
            for form in ("", "_written")
        },
        **{
            f"epidemia_prior{part}{way}": tasks
            for part, tasks in (("", 1), ("_generated", 4))
            for way in ("", "_direct_choice", "_mean_variance", "_quantile", "_grid")
        },
    }
    assert all(
        (repository / f["path"]).is_file() for c in header["configs"] for f in c["data_files"]
    )
    assert "National Survey on Drug Use and Health" in card
    assert "vintage 2022" in card
    assert "Substance Abuse and Mental Health Services Administration" in card
    assert "no attempt to identify" in card
    assert "Tübingen cause-effect pairs" in card


def test_lm_eval_runs_from_the_exported_files(repository, tmp_path, monkeypatch):
    from lm_eval import simple_evaluate
    from lm_eval.models import _register_all_models  # noqa: F401
    from lm_eval.tasks.manager import TaskManager

    from lm_eval_epidemia.harness import discovery

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    discovery.extend_models()
    manager = TaskManager(include_defaults=False, include_path=str(repository / "task_yamls"))
    arguments = ("epidemia-baseline", "kind=noisy,noise=0.5", [TASK])
    found = simple_evaluate(*arguments, task_manager=manager)
    # What the task files name is what `export` was told to push to, or its folder.
    assert found["configs"][TASK]["dataset_path"] == str(repository)
    here = evaluate([TASK], model_args="kind=noisy,noise=0.5")
    assert found["results"] == here["results"]


def test_pushing_names_the_repository_in_the_task_files(tmp_path, monkeypatch):
    """The upload itself is huggingface_hub's; what we ask of it is checked."""
    import huggingface_hub

    asked = []
    monkeypatch.setattr(
        huggingface_hub.HfApi, "create_repo", lambda _, *a, **k: asked.append(("create", a, k))
    )
    monkeypatch.setattr(
        huggingface_hub.HfApi, "upload_folder", lambda _, **k: asked.append(("upload", (), k))
    )
    monkeypatch.setattr(exporting, "_fill", lambda *given: asked.append(("fill", given, {})))
    out = export(tmp_path / "questions", push_to_hub="someone/questions")
    assert asked.pop(0)[1] == (out, "someone/questions")
    assert [what for what, _, _ in asked] == ["create", "upload"]
    assert asked[0][1] == ("someone/questions",)
    assert asked[1][2] == {
        "folder_path": out,
        "repo_id": "someone/questions",
        "repo_type": "dataset",
    }


def test_an_existing_folder_is_not_overwritten(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(EpidemiaError, match="not an empty folder"):
        export(tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_the_dataset_holds_questions_and_no_answers(repository):
    table = datasets.Dataset.from_parquet(str(repository / f"data/epidemia_low/{TASK}.parquet"))
    assert not any(isinstance(value, float) for value in table[0].values())
    assert store.load(TASK).fingerprint in set(table["truth"])
