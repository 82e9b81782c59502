"""What holds for the whole suite: no network, poisoned memory, global random state untouched."""

import gc
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import shape_checks
from browser.skipped import skipped_browser_tests
from filelock import FileLock
from forks import Forks
from grids import mark_rest_of_grids
from hypothesis import HealthCheck, settings

# Before torch is loaded, here and in whatever a test starts: test processes share the processors.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Before anything of attnlab is imported, which is then decorated.
jaxtyping.jaxtyped = shape_checks.jaxtyped
# How long an example takes says how busy the machine is.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
# Of packages whose types and shapes `make test` checks, as pyproject.toml says; of files and of a browser.
TYPED = {"attention", "matrices", "architecture", "browser"}
LOOPBACK = {"127.0.0.1", "::1"}


def pytest_configure(config: pytest.Config) -> None:
    """Tests of torture fork processes that train; beside a GPU torch would take the device for that.

    The process that hands tests to others goes without torch.
    """
    if config.option.markexpr == "torture" or (
        getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    ):
        return
    import torch
    from second_device import register

    if not torch.cuda.is_available():
        register()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before the cases that `-m` leaves out are."""
    mark_rest_of_grids(items)
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.parent.name in TYPED:
            item.add_marker("typed")


def pytest_collection_finish() -> None:
    """What is imported is never garbage: full collections, which training asks for, pass it over."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how many tests of the page in a browser were skipped, and why."""
    for line in skipped_browser_tests(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)


def pytest_runtest_setup() -> None:
    """Types and shapes are checked again in every test."""
    shape_checks.begin_test()


@pytest.fixture(scope="session", autouse=True)
def poisoned_memory() -> None:
    """`torch.empty` is filled with NaN, so that reading what was never written shows."""
    import torch

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture
def gpu() -> Iterator[str]:
    """A GPU, or where there is none a device that stands in for it."""
    import torch
    from second_device import second_device

    if torch.cuda.is_available():
        yield "cuda"
        return
    with second_device() as name:
        yield name


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> None:
    """Signals do here what they do in a shell, also where the tests run in the background or under nohup."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="module")
def intervals_of_six() -> Iterator[None]:
    """Intervals of six sentences and more, for tests on the text of the small run, which has hardly more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.ablation.significance.FEWEST_FOR_INTERVAL", 6)
        yield


@pytest.fixture(autouse=True)
def no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lines of progress because a machine is slow, among what commands are to print."""
    monkeypatch.setattr("attnlab.cli.progress.BEAT", 1e6)


@pytest.fixture(scope="session")
def empty_picture() -> bytes:
    """A PNG file."""
    import io

    from matplotlib.figure import Figure

    file = io.BytesIO()
    Figure((0.1, 0.1)).savefig(file, format="png")
    return file.getvalue()


@pytest.fixture(scope="session", autouse=True)
def pictures(empty_picture: bytes) -> Iterator[Callable[[Any, Any, str], object]]:
    """A figure of a result is drawn once, as SVG; gives what writes it as PNG."""
    from attnlab.figures import canvas

    write = canvas.WRITERS[".png"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(canvas.WRITERS, ".png", lambda figure, file, name: file.write(empty_picture))
        yield write


@pytest.fixture(autouse=True)
def whole_pictures(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    pictures: Callable[[Any, Any, str], object],
) -> None:
    """Figures are drawn as PNG too where they or whole folders are compared."""
    if request.path.parent.name in {"figures", "torture"}:
        from attnlab.figures import canvas

        monkeypatch.setitem(canvas.WRITERS, ".png", pictures)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are saved with an empty page and without figures, for tests that look at neither."""
    from attnlab.results.page.result_page import Contents
    from attnlab.results.result import Result

    monkeypatch.setattr(Result, "contents", lambda _: Contents((), {}, ()))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection that leaves the machine fails at once."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: tuple[str, int]) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and address[0] not in LOOPBACK:
            msg = f"no network in tests: {address}"
            raise ConnectionRefusedError(msg)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def untouched_randomness() -> Iterator[None]:
    """Fails a test whose code moves the global random state of torch."""
    import torch

    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state()), "the global random state was touched"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real corpora beside the repository; tests that need them are skipped without."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data is not on this machine")
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that one process of a run of the suite makes; tests in all read it and leave it as it is."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = shared / "once" / name, shared / "once" / f"{name}.made"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_name(f"{name}.lock")):
        if not made.exists():
            # What a process left that failed.
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            made.touch()
    return folder


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a translation model."""
    from small_run import small_settings

    from attnlab.models.training import train

    command = "attnlab train small"
    return made_once(
        tmp_path_factory, "small", lambda folder: train(folder, small_settings(), command=command)
    )


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Runs commands in processes that need not import the libraries."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def as_users_call_it() -> Iterator[None]:
    """Without the checks of types, which run in tests alone and would refuse first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def copied_run(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "copy"))


@pytest.fixture(scope="session")
def language_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a language model of two layers."""
    from small_run import small_settings

    from attnlab.models.training import train

    settings = small_settings(model={"task": "language-model", "decoder_layers": 2})
    return made_once(tmp_path_factory, "language", lambda folder: train(folder, settings))


@pytest.fixture(scope="session")
def recurrent_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a recurrent model with additive attention."""
    from small_run import RECURRENT, small_settings

    from attnlab.models.training import train

    settings = small_settings(model=RECURRENT)
    return made_once(tmp_path_factory, "recurrent", lambda folder: train(folder, settings))
