from .embedded import LANGUAGES as LANGUAGES
from .embedded import GrammarPair as GrammarPair
from .embedded import draw_pairs as draw_pairs
from .trees import Word as Word
from .trees import surface as surface
