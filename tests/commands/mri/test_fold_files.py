"""Names of the files of a training of all folds."""

from hetero_mtf.commands.mri.fold_files import FoldFiles


def test_files_of_a_fold_have_its_number_and_those_of_all_are_named_after_the_run():
    files = FoldFiles("run/state.npz", "run/state.npz", "out/net.keras")
    assert files.state(2) == "run/state-fold2.npz" and files.model(10) == "out/net-fold10.keras"
    assert (
        str(files.fold_predictions(2)) == "run/state-fold2-predictions.csv" and str(files.fold_scores(2)) == "run/state-fold2-scores.json"
    )
    together = (files.record, files.predictions, files.plot, files.page)
    assert [str(path) for path in together] == [f"run/state-folds.{ending}" for ending in ("json", "csv", "png", "html")]


def test_all_that_is_written_is_declared_and_nothing_where_nothing_is_saved():
    paths = {str(file.path) for file in FoldFiles("s.npz", "s.npz", "m.keras").written(2)}
    each = {f"{name}-fold{fold}{ending}" for fold in (1, 2) for name, ending in (("s", ".npz"), ("m", ".keras"))}
    each |= {f"{name}-fold{fold}-data.json" for fold in (1, 2) for name in ("s", "m")}
    each |= {f"s-fold{fold}-{kind}" for fold in (1, 2) for kind in ("predictions.csv", "scores.json")}
    assert paths == each | {f"s-folds.{ending}" for ending in ("json", "csv", "png", "html")}
    bare = FoldFiles("train")
    assert bare.state(1) is bare.model(1) is None
    assert {str(file.path) for file in bare.written(1)} == {
        "train-fold1-predictions.csv",
        "train-fold1-scores.json",
        *(f"train-folds.{ending}" for ending in ("json", "csv", "png", "html")),
    }
