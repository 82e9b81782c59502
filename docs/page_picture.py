"""Takes the picture of the report page in the README: python docs/page_picture.py REPORT.html."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "_static" / "report_page.png"
# Wide enough for both maps side by side.
SIZE = {"width": 1280, "height": 900}
# A palette: smaller, and no difference that is seen.
COLOURS = 200


def main() -> None:
    """Opens the page and writes the picture."""
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root, as containers do.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE)
        page.goto(Path(sys.argv[1]).resolve().as_uri())
        page.wait_for_timeout(1000)
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
