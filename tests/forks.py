"""Commands of attnlab in forks of a process that has the libraries, whose import is most of their time.

The process has nothing of attnlab itself, which every fork imports anew. It reads a command as a line of
JSON and answers with the status at its end.
"""

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

# What commands import sooner or later.
LIBRARIES = (
    "accelerate",
    "datasets",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "pandas",
    "rich.progress",
    "rich.table",
    "sacrebleu",
    "scipy.optimize",
    "scipy.stats",
    "tokenizers",
    "torch._dynamo",
    "torch.distributed.tensor",
    "transformers.generation",
    "transformers.loss.loss_utils",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.trainer_seq2seq",
    "typer.rich_utils",
)


class Forks:
    """Runs `python -m attnlab`, and waits for it."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def attnlab(
        self, *words: str, folder: Path, paths: list[Path], env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """The command in `folder`, with modules and distributions of `paths` before others."""
        printed = [folder / f".{name}" for name in ("stdout", "stderr")]
        request = [words, *map(str, (folder, *printed)), [*map(str, paths)], dict(env)]
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            print(json.dumps(request), file=self._server.stdin, flush=True)
            status = int(self._server.stdout.readline())
            return subprocess.CompletedProcess(
                words, status, *(path.read_text("utf-8") for path in printed)
            )
        except BaseException:  # such as a timeout: it may answer later
            self.close()
            raise
        finally:
            for path in printed:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends the process."""
        self._server.kill()
        self._server.communicate()


def serve() -> None:
    """Answers until there is nothing more to read."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(
    words: list[str], folder: str, out: str, err: str, paths: list[str], env: dict[str, str]
) -> NoReturn:
    """Goes on as `python -m attnlab`, and ends without taking the libraries apart, which takes long."""
    for number, file in enumerate((os.devnull, out, err)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1] = paths
    sys.argv = ["attnlab", *words]
    status = 1
    try:
        runpy.run_module("attnlab", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
