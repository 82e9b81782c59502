"""Colours and letters of labels and families, told apart by colour-blind readers and in grey too."""

from dataclasses import dataclass

# Inches: a column of a paper, and both.
COLUMN, PAGE = 3.4, 7.0
_LEAST_CONTRAST = 3.0


@dataclass(frozen=True)
class Mark:
    """How a label is shown: the colour of its cells, and a letter in them; none for what has no name."""

    colour: str
    letter: str = ""

    @property
    def pale(self) -> "Mark":
        """The same mark two thirds of the way to white, of what is not confirmed."""
        mixed = (round(one + (255 - one) * 2 / 3) for one in _channels(self.colour))
        return Mark("#" + "".join(f"{one:02x}" for one in mixed), self.letter)

    @property
    def ink(self) -> str:
        """Of the letter, readable on the colour."""
        return "#000000" if _luminance(self.colour) > 0.18 else "#ffffff"

    def edge(self, background: str) -> str:
        """The colour, moved to black or white until a line of it can be told from a background.

        The contrast is 3 to 1 at least, as the Web Content Accessibility Guidelines 2.1 (1.4.11) ask for.
        """
        end = 0 if _luminance(background) > 0.18 else 255
        channels = _channels(self.colour)
        mixed = (
            "#" + "".join(f"{round(one + (end - one) * step / 20):02x}" for one in channels)
            for step in range(21)
        )
        return next(one for one in mixed if _contrast(one, background) >= _LEAST_CONTRAST)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _luminance(colour: str) -> float:
    shares = [one / 255 for one in _channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


# After Okabe and Ito, "Color Universal Design" (2008).
FUNCTIONS = {
    "positional": Mark("#0072b2", "P"),
    "syntactic": Mark("#009e73", "S"),
    "rare tokens": Mark("#d55e00", "R"),
    "sink": Mark("#e69f00", "K"),
    "broad": Mark("#f0e442", "B"),
    "monotone": Mark("#cc79a7", "M"),
    "alignment": Mark("#56b4e9", "A"),
    "none": Mark("#e3e6ea"),
}
STRUCTURES = {
    "diagonal": Mark("#0072b2", "D"),
    "band": Mark("#56b4e9", "B"),
    "kept_band": Mark("#56b4e9", "B"),
    "rare_columns": Mark("#d55e00", "R"),
    "column": Mark("#e69f00", "C"),
    "column_band": Mark("#009e73", "V"),
    "diffuse": Mark("#e3e6ea"),
}
# Of labels that other distributions add.
OTHERS = ("#7b3294", "#8c564b", "#5c7a29", "#a6611a")
