"""Colours and letters of labels and families, told apart by colour-blind readers and in grey too."""

from dataclasses import dataclass

# Inches: a column of a paper, and both.
COLUMN, PAGE = 3.4, 7.0


@dataclass(frozen=True)
class Mark:
    """How a label is shown: the colour of its cells, and a letter in them; none for what has no name."""

    colour: str
    letter: str = ""

    @property
    def ink(self) -> str:
        """Of the letter, readable on the colour."""
        channels = [int(self.colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        return "#000000" if luminance > 0.18 else "#ffffff"


# After Okabe and Ito, "Color Universal Design" (2008).
FUNCTIONS = {
    "positional": Mark("#0072b2", "P"),
    "syntactic": Mark("#009e73", "S"),
    "rare tokens": Mark("#d55e00", "R"),
    "sink": Mark("#e69f00", "K"),
    "broad": Mark("#f0e442", "B"),
    "monotone": Mark("#cc79a7", "M"),
    "alignment": Mark("#56b4e9", "A"),
    "unknown": Mark("#e3e6ea"),
    "undecided": Mark("#f6f7f8", "?"),
}
STRUCTURES = {
    "diagonal": Mark("#0072b2", "D"),
    "band": Mark("#56b4e9", "B"),
    "kept_band": Mark("#56b4e9", "B"),
    "rare_columns": Mark("#d55e00", "R"),
    "sink": Mark("#e69f00", "K"),
    "diffuse": Mark("#e3e6ea"),
}
# Of labels that other distributions add.
OTHERS = ("#7b3294", "#8c564b", "#5c7a29", "#a6611a")
