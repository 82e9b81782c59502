"""fast_align: links of both directions, with the options that its README recommends."""

import subprocess
import sys
from pathlib import Path

from experiments.peers.serving import Describe, Work, serve
from experiments.peers.sides.links import described


def links(folder: Path) -> Work:
    """Writes the links of both directions."""
    sides = [
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("source.txt", "target.txt")
    ]
    text = folder / "fast_align.txt"
    text.write_text(
        "".join(f"{a} ||| {b}\n" for a, b in zip(*sides, strict=True)), encoding="utf-8"
    )
    program = str(Path(sys.executable).parent / "fast_align")

    def work() -> Describe:
        written = []
        for way in ([], ["-r"]):
            written.append(str(folder / f"fast_align{''.join(way)}.links"))
            with Path(written[-1]).open("w", encoding="utf-8") as file:
                command = [program, "-i", str(text), "-d", "-o", "-v", *way]
                subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
        return lambda: described(*written)

    return work


if __name__ == "__main__":
    serve({"links": links})
