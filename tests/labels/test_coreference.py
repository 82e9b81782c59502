"""Heads from mentions to their antecedents, on planted layers and through `analyze --treebank`."""

from pathlib import Path
from random import Random

import torch
from planted_layers import layer
from zoo import random_models
from zoo.random_models import tokenizer

from attnlab.labels.counting import HeadFunctions, TextSide
from attnlab.labels.treebank import Arc, GoldSentence
from attnlab.labels.word_tokens import Alignment, Span
from attnlab.questions.analyze.analysis import analyze

WORDS, SENTENCES = 7, 260
# A pronoun and its antecedent in one sentence, as CorefUD marks them.
LUCA = """# sent_id = luca
1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\tEntity=(e1-person-2-
2\tcat\tcat\tNOUN\t_\t_\t3\tnsubj\t_\tEntity=e1)
3\tsees\tsee\tVERB\t_\t_\t0\troot\t_\t_
4\tthe\tthe\tDET\t_\t_\t5\tdet\t_\tEntity=(e2-animal-2-
5\tdog\tdog\tNOUN\t_\t_\t3\tobj\t_\tEntity=e2)
6\tand\tand\tCCONJ\t_\t_\t8\tcc\t_\t_
7\tit\tit\tPRON\t_\t_\t8\tnsubj\t_\tEntity=(e1-person-1-)
8\truns\trun\tVERB\t_\t_\t3\tconj\t_\tSpaceAfter=No
9\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""


def sentence(number: int) -> GoldSentence:
    later, earlier = sorted(Random(number).sample(range(WORDS), 2), reverse=True)
    spans = tuple(Span(2 * word, 2 * word + 1) for word in range(WORDS))
    return GoldSentence(
        str(number), "a b c d e f g", spans, ("_",) * WORDS, (Arc(0, 1, "det"),),
        coreference=((later, earlier),),
    )  # fmt: skip


def test_a_head_from_mentions_to_antecedents_is_found() -> None:
    trees = [sentence(number) for number in range(SENTENCES)]
    words = tuple(range(WORDS))
    matrices = []
    for tree in trees:
        heads = torch.eye(WORDS).roll(-1, 1).repeat(2, 1, 1)
        ((mention, antecedent),) = tree.coreference
        heads[0, mention] = torch.eye(WORDS)[antecedent]
        matrices.append(heads)
    counts = torch.ones(9, dtype=torch.long)
    side = TextSide(counts, trees, [Alignment(words, words)] * SENTENCES)
    functions = HeadFunctions(side)
    functions.update(layer(matrices, [["word"] * WORDS] * SENTENCES))
    table = functions.verdicts()
    follows, ahead = table[table["label"] == "coreference"].to_dict("records")
    assert (follows["status"], follows["value"]) == ("confirmed", 1)
    assert follows["detail"] == "coreference mention>antecedent"
    assert follows["control"] < 0.5
    assert ahead["status"] == "rejected"


def test_a_treebank_with_entities_gives_the_label(tmp_path: Path) -> None:
    path = tmp_path / "luca.conllu"
    path.write_text(LUCA * 7, encoding="utf-8")
    found = analyze(
        (random_models.bert(), tokenizer()), treebank=path, fit_sentences=0, structure_sentences=0
    )
    mentions = found.relations.query("relation == 'coreference'")
    assert set(mentions["direction"]) == {"mention>antecedent"}
    assert set(mentions["links"]) == {3}, "of seven sentences, three are reported on"
    assert set(mentions["baseline_offset"]) == {-5}
    assert "coreference" in set(found.controls["label"])
    mine = found.controls[found.controls["label"] == "coreference"]
    assert mine["shuffled_value"].notna().all()
