"""eflomal: links of both directions, by its defaults."""

from pathlib import Path

from experiments.peers.serving import Describe, Work, serve
from experiments.peers.sides.links import described


def links(folder: Path) -> Work:
    """Writes the links of both directions."""
    from eflomal import Aligner

    written = [str(folder / f"eflomal.{way}") for way in ("forward", "backward")]

    def work() -> Describe:
        sides = [(folder / name).open(encoding="utf-8") for name in ("source.txt", "target.txt")]
        Aligner().align(*sides, links_filename_fwd=written[0], links_filename_rev=written[1])
        return lambda: described(*written)

    return work


if __name__ == "__main__":
    serve({"links": links})
