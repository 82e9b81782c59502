"""Whether heads attend to what somebody says they do, beside controls."""

from attnlab.results import Listed

LISTED = Listed(
    name="claim",
    panel="Heads",
    help="Check claims about heads, such as '2.4: offset -1' or '2.4 attends to the previous word'.\n\n"
    "A claim is a head and a pattern, a set of keys for each query. Counted is how often the head's largest "
    "weight lies in it, beside equal weights, the best fixed offset, an untrained twin and shuffled words; "
    "a grade says what the interval allows. Heads count from 0.\n\n"
    "Patterns: offset -1, offset -3..-1, word offset 1, first, last, special [SEP], punctuation, "
    'token "the", same token, after same token, same word, rarest 2, other segment, aligned; with a treebank '
    "pos ADJ -> NOUN, dep nsubj, coref; joined by |, &, not and brackets. docs/heads.md, section 11.",
)
