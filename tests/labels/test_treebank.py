"""Trees over written words: multi-word tokens, empty nodes, gzip, and what is refused."""

import gzip
import io
from pathlib import Path

import conllu
import pytest

from attnlab.core.errors import InputError
from attnlab.grammar.embedded import draw_pairs
from attnlab.grammar.trees import conllu as conllu_of
from attnlab.labels.treebank import Arc, gold_sentence, load_treebank, shuffle_words


def line(number, form, tag, head, relation, misc="_") -> str:
    return "\t".join(
        [str(number), form, form.lower(), tag, "_", "_", str(head), relation, "_", misc]
    )


# "I dell'arte vedono." with an elided second verb as an empty node
ITALIAN = [
    "# sent_id = it-1",
    "# text = Gatti dell'arte vedono.",
    line(1, "Gatti", "NOUN", 5, "nsubj:pass"),
    line("2-3", "dell'", "_", "_", "_", "SpaceAfter=No"),
    line(2, "di", "ADP", 4, "case"),
    line(3, "l'", "DET", 4, "det"),
    line(4, "arte", "NOUN", 1, "nmod"),
    line(5, "vedono", "VERB", 0, "root", "SpaceAfter=No"),
    line("5.1", "vedono", "VERB", "_", "_"),
    line(6, ".", "PUNCT", 5, "punct"),
]
# one written word holds its own head; head and dependent both are merged words
ENGLISH = [
    line("1-2", "Don't", "_", "_", "_"),
    line(1, "Do", "AUX", 3, "aux"),
    line(2, "n't", "PART", 1, "advmod"),
    line(3, "go", "VERB", 0, "root"),
]


def write(path: Path, *sentences: list[str]) -> Path:
    text = "".join("\n".join(lines) + "\n\n" for lines in sentences)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["tree.conllu", "tree.conllu.gz"])
def test_written_words_carry_the_arcs_of_their_parts(tmp_path: Path, name: str) -> None:
    first, second = load_treebank(write(tmp_path / name, ITALIAN, ENGLISH))
    assert first.text == "Gatti dell'arte vedono."
    assert first.words == ("Gatti", "dell'", "arte", "vedono", ".")
    assert first.tags == ("NOUN", "ADP", "NOUN", "VERB", "PUNCT")
    assert first.arcs == (
        Arc(0, 3, "nsubj:pass"),
        Arc(1, 2, "case"),
        Arc(1, 2, "det"),
        Arc(2, 0, "nmod"),
        Arc(4, 3, "punct"),
    )
    assert (first.identifier, first.arcs_inside) == ("it-1", 0)
    assert second.words == ("Don't", "go")
    assert second.arcs == (Arc(0, 1, "aux"),)
    assert (second.identifier, second.arcs_inside) == ("2", 1)


# "Luca is studying in Spain; he likes his town": two entities, one mention within another.
LUCA = [
    "# global.Entity = eid-etype-head-other",
    line(1, "Luca", "PROPN", 3, "nsubj", "Entity=(e1-person-1-)"),
    line(2, "is", "AUX", 3, "aux"),
    line(3, "studying", "VERB", 0, "root"),
    line(4, "in", "ADP", 5, "case"),
    line(5, "Spain", "PROPN", 3, "obl", "Entity=(e2-place-1-)|SpaceAfter=No"),
    line(6, ";", "PUNCT", 8, "punct"),
    line(7, "he", "PRON", 8, "nsubj", "Entity=(e1-person-1-)"),
    line(8, "likes", "VERB", 3, "parataxis"),
    line("8.1", "_", "PRON", "_", "_", "Entity=(e1-person-1-)"),
    line(9, "his", "PRON", 10, "nmod:poss", "Entity=(e3-place-2-(e1-person-1-)"),
    line(10, "town", "NOUN", 8, "obj", "Entity=e3)(e1[1/2]-person-1-)"),
]


def test_mentions_are_linked_with_the_nearest_before_them(tmp_path: Path) -> None:
    (read,) = load_treebank(write(tmp_path / "luca.conllu", LUCA))
    words = read.words
    linked = {(words[mention], words[antecedent]) for mention, antecedent in read.coreference}
    assert linked == {("he", "Luca"), ("his", "he")}
    mixed = shuffle_words(read, seed=2)
    assert mixed.words != words
    assert linked == {(mixed.words[one], mixed.words[other]) for one, other in mixed.coreference}
    (plain,) = load_treebank(write(tmp_path / "tree.conllu", ITALIAN))
    assert plain.coreference == ()


def test_a_mention_stands_for_its_syntactic_head(tmp_path: Path) -> None:
    lines = [
        line(1, "the", "DET", 3, "det", "Entity=(e1-person-1-"),
        line(2, "old", "ADJ", 3, "amod"),
        line(3, "cat", "NOUN", 4, "nsubj", "Entity=e1)"),
        line(4, "licks", "VERB", 0, "root"),
        line(5, "itself", "PRON", 4, "obj", "Entity=(e1)"),
    ]
    (read,) = load_treebank(write(tmp_path / "cat.conllu", lines))
    assert read.coreference == ((4, 2),)


def test_entities_with_a_word_in_common_stay_apart(tmp_path: Path) -> None:
    lines = [
        line(1, "John", "PROPN", 4, "nsubj", "Entity=(e3-person-1-(e1-person-1-)"),
        line(2, "and", "CCONJ", 3, "cc"),
        line(3, "Mary", "PROPN", 1, "conj", "Entity=(e2-person-1-)e3)"),
        line(4, "came", "VERB", 0, "root", "SpaceAfter=No"),
        line(5, ",", "PUNCT", 4, "punct"),
        line(6, "he", "PRON", 7, "nsubj", "Entity=(e1-person-1-)"),
        line(7, "saw", "VERB", 4, "parataxis"),
        line(8, "them", "PRON", 7, "obj", "Entity=(e3-person-1-)"),
    ]
    (read,) = load_treebank(write(tmp_path / "john.conllu", lines))
    assert set(read.entities) == {(0, 5), (0, 7)}, "John and he; John, of both, and them"
    assert read.coreference == ((5, 0), (7, 0))
    mixed = shuffle_words(read, seed=2)
    assert {frozenset(mixed.words[word] for word in mine) for mine in mixed.entities} == {
        frozenset({"John", "he"}), frozenset({"John", "them"}),
    }  # fmt: skip


def test_embedded_trees_equal_their_own_file(tmp_path: Path) -> None:
    for pair in draw_pairs(20, seed=1):
        for tree, text in ((pair.source_tree, pair.source), (pair.target_tree, pair.target)):
            path = tmp_path / "tree.conllu"
            path.write_text(conllu_of(tree), encoding="utf-8")
            assert gold_sentence(tree, "1") == load_treebank(path)[0]
            assert gold_sentence(tree, "1").text == text


def test_first_sentences_only(tmp_path: Path) -> None:
    path = write(tmp_path / "tree.conllu", ITALIAN, ENGLISH)
    assert [one.identifier for one in load_treebank(path, sentences=1)] == ["it-1"]


def test_shuffled_words_keep_their_arcs(tmp_path: Path, untouched_randomness) -> None:
    sentence = load_treebank(write(tmp_path / "tree.conllu", ITALIAN))[0]
    moved = shuffle_words(sentence, seed=3)
    assert moved.words != sentence.words
    assert sorted(moved.words) == sorted(sentence.words)
    assert moved.text == " ".join(moved.words)

    def named(one):
        return {(one.words[arc.dependent], one.words[arc.head], arc.relation) for arc in one.arcs}

    assert named(moved) == named(sentence)
    assert dict(zip(moved.words, moved.tags, strict=True)) == dict(
        zip(sentence.words, sentence.tags, strict=True)
    )
    assert shuffle_words(sentence, seed=3) == moved
    assert len({shuffle_words(sentence, seed=seed).words for seed in range(9)}) > 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no sentence"),
        (b"1\tno\ttabs\n\n", "cannot be read as CoNLL-U after sentence 0"),
        (b"plain text\n\n", "cannot be read as CoNLL-U after sentence 0"),
        (b"\xff\xfe\x00\n\n", "is UTF-16 text, not UTF-8"),
        ("\n".join([line(1, "a", "X", 7, "dep")]).encode() + b"\n\n", "'a' in sentence 1 of"),
        ("\n".join([line(1, "a", "X", "_", "_")]).encode() + b"\n\n", "has no valid head"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_treebank(path)


def words_of(*heads: object) -> list[str]:
    return [line(number, "a", "X", head, "dep") for number, head in enumerate(heads, 1)]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ([*words_of(0, 1), line(2, "b", "X", 1, "dep")], "not numbered from 1 on: 2 stands for 3"),
        ([line(1, "a", "X", 0, "dep"), line(3, "b", "X", 1, "dep")], "3 stands for 2"),
        ([line(2, "a", "X", 0, "dep")], "2 stands for 1"),
        ([line("1-2", "ab", "_", "_", "_")], "There is no word in sentence 1"),
        ([*words_of(0), line("2-3", "ab", "_", "_", "_")], "range 2-3 .* more than the 1 words"),
        ([line("2-1", "ab", "_", "_", "_"), *words_of(0, 1)], "not a valid ID"),
        ([*words_of(0, 1), line("1-2", "ab", "_", "_", "_")], "The range 1-2"),
        (
            [
                line("1-2", "ab", "_", "_", "_"),
                words_of(0)[0],
                line("2-3", "bc", "_", "_", "_"),
                *words_of(0, 1, 1)[1:],
            ],
            "The range 2-3 .* overlaps another",
        ),
        (words_of(0, 3, 2), r"run in a circle \(2 -> 3 -> 2\)"),
        (words_of(0, 2), r"the head of word 2 of 2 is 2"),
        (words_of(0, -1), "has no valid head|cannot be read"),
        (words_of(2, 1), "no root"),
        (words_of(0, 0), r"2 roots \(1, 2\)"),
        ([line(1, "", "X", 0, "root")], "has no form|cannot be read"),
        ([line(1, "a", "X", "9" * 5000, "root")], "cannot be read|no valid head"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path: Path, sentence: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as told:
        load_treebank(write(tmp_path / "bad.conllu", sentence))
    assert str(tmp_path / "bad.conllu") in str(told.value)


def test_missing_and_broken_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file .* name a CoNLL-U file"):
        load_treebank(tmp_path / "none.conllu")
    path = write(tmp_path / "cut.conllu.gz", ITALIAN)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="is not a whole gzip file"):
        load_treebank(path)
    path.write_text("not gzip", encoding="utf-8")
    with pytest.raises(InputError, match="is not a whole gzip file"):
        load_treebank(path)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "it", "de", "fr", "es"])
def test_text_is_that_of_the_treebank(shared_data: Path, language: str) -> None:
    path = shared_data / "pud" / f"{language}.conllu.gz"
    with io.TextIOWrapper(gzip.open(path), encoding="utf-8") as stream:
        texts = [one.metadata["text"] for one in conllu.parse_incr(stream)]
    assert [sentence.text for sentence in load_treebank(path)] == texts
