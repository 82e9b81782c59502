"""attnlab: what every attention head does, and what could replace it.

Nothing heavy is imported here; each name is looked up in its module when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# When first imported it draws from Python's global generator, which must not happen within a question.
import rich.style  # noqa: F401

from attnlab.core.installed import __version__

if TYPE_CHECKING:
    from attnlab import attention, matrices, plot
    from attnlab.models import embed, resume, train
    from attnlab.questions.across.comparing import across
    from attnlab.questions.align.aligning import align
    from attnlab.questions.analyze.analysis import analyze
    from attnlab.questions.approximate.approximation import approximate
    from attnlab.questions.check.checking import assert_attends, check
    from attnlab.questions.claim.claiming import claim
    from attnlab.questions.compare.comparison import compare
    from attnlab.questions.detect.detecting import detect
    from attnlab.questions.importance.importance import importance
    from attnlab.questions.inspect.inspection import inspect
    from attnlab.questions.neighbours.neighbours import neighbours
    from attnlab.questions.plan.planning import plan
    from attnlab.questions.prune.pruning import prune
    from attnlab.questions.rollout.rolling import rollout
    from attnlab.questions.size.sizing import size
    from attnlab.reading.capture import capture
    from attnlab.results import Result, load, show
    from attnlab.studies import run_study
    from attnlab.using_models import export, score, translate

__all__ = [
    "Result",
    "__version__",
    "across",
    "align",
    "analyze",
    "approximate",
    "assert_attends",
    "attention",
    "capture",
    "check",
    "claim",
    "compare",
    "detect",
    "embed",
    "export",
    "importance",
    "inspect",
    "load",
    "matrices",
    "neighbours",
    "plan",
    "plot",
    "prune",
    "resume",
    "rollout",
    "run_study",
    "score",
    "show",
    "size",
    "train",
    "translate",
]

_HOMES = {
    "Result": "attnlab.results.result",
    "assert_attends": "attnlab.questions.check.checking",
    "capture": "attnlab.reading.capture",
    "load": "attnlab.results.load_any",
    "embed": "attnlab.models.first_embeddings",
    "export": "attnlab.using_models",
    "resume": "attnlab.models.training",
    "run_study": "attnlab.studies.running",
    "score": "attnlab.using_models",
    "show": "attnlab.results.showing",
    "train": "attnlab.models.training",
    "translate": "attnlab.using_models",
}
_PACKAGES = ("attention", "matrices", "plot")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"attnlab.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    questions = import_module("attnlab.results.question").questions()
    if name not in questions:
        core = import_module("attnlab.core")
        ours = core.our_name(name) or core.nearest(name, __all__)
        hint = f"; see attnlab.{ours}" if ours else ""
        if hasattr(import_module("attnlab.results").Result, name):
            hint = f"; what a question returns has its own {name}"
        msg = f"module 'attnlab' has no attribute {name!r}{hint}"
        raise AttributeError(msg)
    return questions[name].verb


def __dir__() -> list[str]:
    return sorted(__all__)
