"""What is known of sentences, and what shuffling does to it."""

import pytest

from attnlab.grammar.embedded import draw_pairs
from attnlab.labels.gold import gold_of_embedded, gold_of_texts, gold_of_treebank, shuffled

DRAWN = {
    "-".join(pair): draw_pairs(60, seed=5, languages=pair) for pair in (("en", "it"), ("it", "en"))
}
PAIRS = DRAWN["en-it"][40:]


def embedded(pair: str = "en-it", *, lowercase: bool = False):
    texts = [(one.source, one.target) for one in PAIRS]
    texts = [side[::-1] for side in texts] if pair == "it-en" else texts
    texts = [(a.lower(), b.lower()) for a, b in texts] if lowercase else texts
    gold = gold_of_embedded(texts, DRAWN[pair], lowercase=lowercase)
    assert gold.generated
    assert list(gold.texts) == texts
    return gold


def words_aligned(gold) -> list[set[tuple[str, str]]]:
    sides = zip(gold.source, gold.target, gold.pairs, strict=True)
    return [
        {(source.words[s], target.words[t]) for t, s in links} for source, target, links in sides
    ]


def arcs_in_words(sentence) -> list[tuple[str, str, str]]:
    words = sentence.words
    return sorted((words[a.dependent], words[a.head], a.relation) for a in sentence.arcs)


@pytest.mark.parametrize("lowercase", [False, True])
def test_trees_and_alignments_of_the_embedded_corpus(lowercase: bool) -> None:
    gold = embedded(lowercase=lowercase)
    assert gold.trees
    for pair, found, english in zip(PAIRS, words_aligned(gold), gold.source, strict=True):
        expected = {
            (pair.source_tree[s - 1].form, pair.target_tree[t - 1].form) for s, t in pair.alignment
        }
        lowered = {(a.lower(), b.lower()) for a, b in expected}
        assert found == (lowered if lowercase else expected)
        assert len(english.arcs) == len(pair.source_tree) - 1


def test_the_pair_turned_round() -> None:
    there, back = words_aligned(embedded()), words_aligned(embedded("it-en"))
    assert [{(b, a) for a, b in links} for links in back] == there


def test_unknown_sentences_are_words_alone() -> None:
    gold = gold_of_embedded([("Il  gatto.", "x y")], DRAWN["en-it"], lowercase=False)
    assert not gold.generated
    assert (gold.trees, gold.pairs) == (False, ())
    assert gold.source[0].words == ("Il", "gatto.")
    assert gold.texts == (("Il  gatto.", "x y"),)
    lowered = gold.lowered()
    assert lowered.texts == (("il  gatto.", "x y"),)
    assert lowered.source[0].words == ("il", "gatto.")
    alone = gold_of_texts(["a a b", "c"])
    assert alone.target is None
    assert alone.source[0].words == ("a", "a", "b")
    assert alone.texts == ("a a b", "c")


def test_trees_and_alignments_go_with_shuffled_words() -> None:
    gold = embedded()
    mixed = shuffled(gold, seed=3)
    assert mixed.texts != gold.texts
    assert words_aligned(mixed) == words_aligned(gold)
    for before, after in zip(gold.source + gold.target, mixed.source + mixed.target, strict=True):
        assert sorted(after.words) == sorted(before.words)
        assert arcs_in_words(after) == arcs_in_words(before)
        tagged = sorted(zip(before.words, before.tags, strict=True))
        assert sorted(zip(after.words, after.tags, strict=True)) == tagged
    assert shuffled(gold, seed=3) == mixed
    assert shuffled(gold, seed=4) != mixed
    assert shuffled(gold.without_target(), seed=3).source == mixed.source


def test_sentences_of_a_treebank(shared_data) -> None:
    gold = gold_of_treebank(shared_data / "pud" / "it.conllu.gz", 11)
    assert len(gold.source) == 11
    assert gold.texts[0] == gold.source[0].text
    assert gold.source[0].arcs


def test_a_treebank_in_lower_case_keeps_its_words_in_place(tmp_path) -> None:
    words = ["Über", "İzmir", "Fährt"]
    lines = [
        f"{n}\t{word}\t_\tX\t_\t_\t{0 if n == 1 else 1}\tdep\t_\t_"
        for n, word in enumerate(words, 1)
    ]
    path = tmp_path / "trees.conllu"
    path.write_text(f"# text = {' '.join(words)}\n" + "\n".join(lines) + "\n\n", encoding="utf-8")
    (gold,) = gold_of_treebank(path, None).source
    (lowered,) = gold_of_treebank(path, None, lowercase=True).source
    assert list(gold.words) == words
    assert list(lowered.words) == ["über", "İzmir", "fährt"]
    assert lowered.arcs == gold.arcs
