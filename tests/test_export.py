"""The exported dataset repository, read back by `datasets`, by lm-eval and by `mlcroissant`."""

import json
import re
from collections import Counter

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import REPOSITORY, evaluate

from lm_eval_epidemia.api import load_truth, score_answers
from lm_eval_epidemia.benchmarks import BENCHMARKS, in_way
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import export as exporting
from lm_eval_epidemia.harness.export import export
from lm_eval_epidemia.harness.export.card import croissant_file
from lm_eval_epidemia.report.share import check_target
from lm_eval_epidemia.surveys.catalogue import find_record

TASK = "epidemia_low_nsduh_heroin_ever_by_age"
CANARY = "6613c1db-d9b6-474b-9ece-eb69cac03231"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """All files of a repository; but for tasks of one survey, all of a way hold the same."""
    tables, once = exporting._tables, {}

    def of_one_survey(asked):
        if asked.entry.part.endswith("_low_nsduh"):
            return tables(asked)
        key = asked.benchmark.name, asked.way
        if key not in once:
            once[key] = tables(asked)
        return once[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_tables", of_one_survey)
        return export(tmp_path_factory.mktemp("export") / "questions")


@pytest.fixture
def loaded(repository, tmp_path):
    """Load a split as anybody would."""

    def load(config, split):
        return datasets.load_dataset(str(repository), config, split=split, cache_dir=str(tmp_path))

    return load


def test_datasets_loads_the_questions(loaded):
    questions = loaded("epidemia_low", "test").filter(lambda row: row["task"] == TASK).to_list()
    for row, ours in zip(questions, split(TASK), strict=True):
        assert {name: row[name] for name in ours} == ours
        levels = store.load_truth(TASK).levels
        assert row["answers"] == [levels[level] for level in ours["order"]]
        assert row["way"] == "letters" and CANARY in row["canary"]
    assert {(row["cell"], row["ordering"]) for row in questions} == {
        (cell, place) for cell in range(len(questions) // 2) for place in range(2)
    }


def test_whoever_never_heard_of_lm_eval_can_score(loaded):
    """By the formula of the card, with nothing but the split `truth`."""
    rows = loaded("epidemia_low", "truth").to_pandas()
    rows = rows[rows.task == TASK].dropna(axis="columns")
    truth = load_truth(TASK)
    assert list(rows.given) == [[f"age: {age}"] for (age,) in truth.given]
    assert np.array_equal(np.stack(rows.p), truth.p) and rows.weight.sum() == pytest.approx(1)
    frame = truth.to_frame()
    for name in ("low", "high"):
        assert np.concatenate([*rows[name]]) == pytest.approx(frame[name])
    assert list(rows.n) == list(truth.n) and list(rows.n_eff) == list(truth.n_eff)
    d = (rows.weight * [np.abs(p - [0.02, 0.98]).sum() for p in rows.p]).sum()
    ends = rows.iloc[0]
    score = 100 * np.clip((ends.d_zero - d) / (ends.d_zero - ends.d_perfect), 0, 1)
    said = rows.explode("levels").rename(columns={"levels": "level"})
    said["p"] = np.where(said.level == "Yes", 0.02, 0.98)
    table = score_answers(said)
    assert 0 < score < 100 and table.value[0] == pytest.approx(score, abs=1e-9)
    # A truth as it is exported scores 100.
    own = rows.explode(["levels", "p"]).rename(columns={"levels": "level"})
    assert score_answers(own).value[0] == 100


def test_every_config_loads_and_tells_what_is_true(repository, loaded):
    header = yaml.safe_load((repository / "README.md").read_text().split("---")[1])
    for config in header["configs"]:
        assert [file["split"] for file in config["data_files"]] == ["test", "truth"]
        files = [path for file in config["data_files"] for path in repository.glob(file["path"])]
        # `datasets` loads no config whose splits differ in their columns.
        first, *others = map(pq.read_schema, files)
        assert all(other.equals(first) for other in others), config
        assert all(CANARY in text for text in pq.read_table(files[-1])["canary"].to_pylist())
    graphs = loaded("epidemia_intervention", "truth").to_pandas().drop_duplicates("cell")
    changed = graphs[graphs.kappa == 1]
    assert {*changed.right} == {"No"} and len(changed)
    before = graphs.set_index("cell").right
    assert {*before[changed.base]} == {"Yes"}
    priors = loaded("epidemia_prior", "truth")[0]
    assert priors["se"] > 0 and np.shape(priors["baseline_mean"]) == (4, 25)
    quick = loaded("epidemia_quick", "truth")[0]
    own = load_truth(quick["of_task"])
    assert quick["p"] == list(own.p[quick["of_cell"]])


def test_the_card_says_what_it_is(repository):
    card = (repository / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    numbers = {
        config["config_name"]: len([*repository.glob(config["data_files"][0]["path"])])
        for config in header["configs"]
    }
    # All ways but that of sampled answers, whose prompts are the letters' with other seeds.
    assert numbers == Counter(
        in_way(entry.group, way)
        for benchmark in BENCHMARKS.values()
        for way in benchmark.ways
        for entry in benchmark.asked(way)
        if way != "sampled"
    )
    assert (numbers["epidemia_low"], numbers["epidemia_high"]) == (63, 44)
    assert {*header} >= {"license", "task_categories", "tags", "pretty_name", "size_categories"}
    assert len(card.splitlines()) < 200 and CANARY in card
    assert all(
        card.count(f"**{find_record(name).title}**, v") == 1 for name in ("nsduh", "acs", "fbi")
    )
    assert "no attempt to identify" in card and "Tübingen cause-effect pairs" in card
    # Where a column holds no cluster, the card says what does.
    assert "for `_knowledge`, over the pairs of names asked about" in card


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
    assert CANARY in str(found["samples"][TASK][0]["doc"])
    here = evaluate([TASK], model_args="kind=noisy,noise=0.5")
    assert found["results"] == here["results"]


def test_pushing_names_the_repository_in_the_task_files(tmp_path, monkeypatch):
    """The upload itself is huggingface_hub's; what we ask of it is checked."""
    import huggingface_hub

    asked = []
    for what in ("create_repo", "create_commit"):
        call = lambda _, *a, what=what, **k: asked.append((what, a, k))  # noqa: E731
        monkeypatch.setattr(huggingface_hub.HfApi, what, call)

    def fill(folder, *given):
        (folder / "README.md").write_text("card")
        asked.append(("fill", given, {}))

    monkeypatch.setattr(exporting, "_fill", fill)
    out = export(tmp_path / "questions", push_to_hub="someone/questions")
    assert asked.pop(0)[1] == (out, "someone/questions", False)
    assert [what for what, _, _ in asked] == ["create_repo", "create_commit"]
    assert asked[0][1] == ("someone/questions",)
    repository, (file,) = asked[1][1]
    assert repository == "someone/questions" and asked[1][2]["repo_type"] == "dataset"
    assert (file.path_in_repo, file.path_or_fileobj) == ("README.md", str(out / "README.md"))
    # What the user keeps beside it is uploaded nowhere.
    (out / "notes.txt").write_text("mine")
    export(out, push_to_hub="someone/questions")
    assert [file.path_in_repo for file in asked[-1][1][1]] == ["README.md"]


def test_a_folder_is_written_again_and_those_of_others_are_refused(tmp_path, monkeypatch):
    """As `epidemia share` does: what it wrote is replaced, what is the user's is kept."""
    files = iter([["README.md", "data/old.parquet"], ["README.md"], ["README.md", "notes.txt"]])

    def fill(folder, *_):
        for name in next(files):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("ours")

    monkeypatch.setattr(exporting, "_fill", fill)
    out = export(tmp_path / "questions")
    assert (out / "data" / "old.parquet").is_file()
    (out / "notes.txt").write_text("mine")
    export(out)
    assert not (out / "data").exists() and (out / "notes.txt").read_text() == "mine"
    with pytest.raises(EpidemiaError, match=r"contains notes.txt, which we did not write"):
        export(out)
    assert (out / "notes.txt").read_text() == "mine"
    with pytest.raises(EpidemiaError, match="is of another command"):
        check_target(out)
    # Before anything is written.
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(EpidemiaError, match="holds other files"):
        export(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"precious.txt", "questions"}


def test_an_upload_that_fails_says_where_the_files_are(tmp_path, monkeypatch):
    import huggingface_hub

    def fail(*_, **__):
        raise ConnectionError("no route\nto the host")

    monkeypatch.setattr(exporting, "_fill", lambda folder, *_: (folder / "README.md").touch())
    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", fail)
    expected = r"the upload to me/q failed \(ConnectionError: no route to the host\): try"
    with pytest.raises(EpidemiaError, match=expected):
        export(tmp_path / "out", push_to_hub="me/q")
    assert (tmp_path / "out" / "README.md").is_file()


def test_the_hub_and_croissant_read_what_they_want(repository):
    mlcroissant = pytest.importorskip("mlcroissant")
    benchmark = yaml.safe_load((repository / "eval.yaml").read_text())
    assert {"name", "description", "evaluation_framework", "tasks"} == {*benchmark}
    configs = {path.name for path in (repository / "data").iterdir()}
    # By the names of groups, as `epidemia share` names them in .eval_results.
    assert {listed["id"] for listed in benchmark["tasks"]} == configs
    for listed in benchmark["tasks"]:
        assert listed == {"id": listed["config"], "config": listed["config"], "split": "test"}
    path = repository / "croissant.json"
    read = mlcroissant.Dataset(jsonld=path)
    assert not read.metadata.issues.errors
    assert read.metadata.data_biases and read.metadata.data_limitations
    assert read.metadata.data_collection
    assert read.metadata.personal_sensitive_information[0].startswith("None.")
    assert {listed.id for listed in read.metadata.record_sets} == {
        f"{config}-{split}" for config in configs for split in ("test", "truth")
    }
    row = next(iter(read.records("epidemia_low-truth")))
    assert isinstance(row["epidemia_low-truth/p"][0], float)
    # On the Hub the files lie in its repository.
    text = croissant_file([], "someone/questions")
    assert json.loads(text)["distribution"][0]["contentUrl"].endswith("someone/questions")


def test_stated_leaves_what_is_answered_in_writing(tmp_path, monkeypatch, epidemia):
    few = [TASK, "epidemia_high_nsduh_cocaine_ever_by_age_sex"]
    monkeypatch.setattr(OBSERVATION, "available", lambda: few)
    monkeypatch.setattr(exporting, "BENCHMARKS", {"observation": OBSERVATION})
    monkeypatch.setattr(exporting.yamls, "render", lambda *given, **chosen: {})
    ran = epidemia("export", "--stated", "--out", tmp_path / "written")
    assert ran.returncode == 0 and "--tasks epidemia_low_stated" in ran.stdout
    configs = {path.name for path in (tmp_path / "written/data").iterdir()}
    assert "epidemia_low_stated" in configs and "epidemia_high_closed" in configs
    assert not configs & {"epidemia_low", "epidemia_low_likelihood"}
    tasks = yaml.safe_load((tmp_path / "written/eval.yaml").read_text())["tasks"]
    assert {listed["id"] for listed in tasks} == configs


def test_the_page_scores_a_table_in_ten_lines(repository, tmp_path, monkeypatch, capsys):
    page = (REPOSITORY / "docs" / "guides" / "elsewhere.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    # Without empty lines and comments.
    assert len([line for line in code.splitlines() if line and line[0] != "#"]) <= 10
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.chdir(repository.parent)
    exec(code, {})
    assert capsys.readouterr().out == shown
