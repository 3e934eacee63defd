"""Examples of translation and of reviews, on generated texts; their inputs have no fixed length."""

from __future__ import annotations

import pathlib

from tools.keras_io.recipe import Recipe, files, keras_reviews, words


def _sentences(count: int, seed: int) -> list[str]:
    text = words(8 * count, seed).split()
    return [" ".join(text[8 * i : 8 * i + 3 + i % 6]) for i in range(count)]


def _spanish(folder: pathlib.Path) -> pathlib.Path:
    (folder / "spa-eng").mkdir(exist_ok=True)
    lines = [f"{english}.\t¿{spanish}?" for english, spanish in zip(_sentences(120, 0), _sentences(120, 1), strict=True)]
    (folder / "spa-eng" / "spa.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "spa-eng.zip"


def _translation() -> None:
    files(_spanish)


def _french() -> None:
    lines = [f"{english}.\t{french} !\tnobody" for english, french in zip(_sentences(100, 0), _sentences(100, 1), strict=True)]
    pathlib.Path("fra.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _reviews() -> None:
    keras_reviews(96, 32)


def _review_files() -> None:
    for part, count in (("train", 60), ("test", 24)):
        for label in ("neg", "pos"):
            folder = pathlib.Path("aclImdb", part, label)
            folder.mkdir(parents=True, exist_ok=True)
            for i in range(count):
                text = words(60 + 7 * i, seed=2 * i + (label == "pos"))
                (folder / f"{i}_5.txt").write_text(f"{'good' if label == 'pos' else 'bad'} film.<br />{text}")


RECIPES = (
    Recipe(
        "neural_machine_translation_with_transformer",
        "nlp/neural_machine_translation_with_transformer.py",
        edits=(
            ("batch_size = 64", "batch_size = 16"),
            ("return tf.math.not_equal(inputs, 0)", "return keras.ops.not_equal(inputs, 0)"),  # of a symbolic tensor
            ("mask[:, tf.newaxis, tf.newaxis, :]", "mask[:, tf.newaxis, :]"),  # Keras 3 adds the dimension of the heads
            # and a layer that reads two tensors gets the mask of each by its name
            ("encoder_outputs, mask=None", "encoder_outputs, inputs_mask=None"),
            ("causal_mask = self.get", "mask, causal_mask = inputs_mask, self.get"),
            ("range(30)", "range(1)"),
        ),
        prepare=_translation,
    ),
    Recipe("bidirectional_lstm_imdb", "nlp/bidirectional_lstm_imdb.py", prepare=_reviews),
    Recipe("text_classification_from_scratch", "nlp/text_classification_from_scratch.py", prepare=_review_files),
    Recipe(
        "lstm_seq2seq",
        "nlp/lstm_seq2seq.py",
        edits=(
            ("batch_size = 64", "batch_size = 16"),
            ('model.save("s2s")', 'model.save("s2s.keras")'),  # Keras 3 wants the ending
            ('load_model("s2s")', 'load_model("s2s.keras")'),
            ("range(20)", "range(1)"),
        ),
        prepare=_french,
    ),
)
