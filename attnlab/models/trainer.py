"""transformers' Seq2SeqTrainer with length-grouped batches and checkpoints without pickles."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import (
    EvalPrediction,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)
from transformers.trainer_utils import EvalLoopOutput

from attnlab.core import AttnlabError, InputError, Processes, answering, usable_device
from attnlab.models.configuration import IGNORED_LABEL
from attnlab.models.run_folder import (
    CHECKPOINTS,
    STATE,
    checkpoint_path,
    checkpoint_step,
    delete_older_checkpoints,
    new_checkpoint,
)
from attnlab.models.safe_loading import save_with_checksum
from attnlab.models.scoring import perplexity
from attnlab.models.training_batches import LengthGroupedBatches, SharedBatches, TokenPairs
from attnlab.models.training_settings import OptimizerSettings

# The Trainer compares one number: BLEU, of which a billionth of the loss decides ties.
CHOICE = "bleu_then_loss"
# Below so many points BLEU counts chance matches of frequent words; no sentence can be read.
READABLE_BLEU = 3.0


def choice(bleu: float, loss: float) -> float:
    """The number that the best checkpoint has most of: readable BLEU; at equal or none, the lower loss.

    >>> choice(0.2, 6.5) > choice(0.4, 7.1), choice(9.0, 4.0) > choice(8.0, 3.0)
    (True, True)
    """
    return (bleu if bleu >= READABLE_BLEU else 0.0) - 1e-9 * loss


@dataclass(frozen=True)
class Evaluated:
    """One batch in evaluation: its loss, of how many tokens it is the mean, how many rows, translations."""

    loss: float
    tokens: int
    rows: int
    ids: Int[Tensor, "batch token"] | None


class TranslationTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer that batches by length under a token budget, in training and in evaluation.

    Several processes share each batch of training, and the batches of evaluation. The Trainer divides
    the loss of each part by the tokens of the whole batch, so that gradients are those of one process.
    """

    def __init__(
        self,
        *,
        batch_tokens: int,
        processes: Processes,
        training_sample: TokenPairs | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.training_sample = training_sample
        self.batch_tokens = batch_tokens
        self.processes = processes
        self._writing_to: str | None = None

    def get_train_dataloader(self) -> DataLoader[Any]:
        """This process's part of each batch, in a new order every epoch."""
        batches = self._batches(self.train_dataset, shuffle=True)
        return self._loader(self.train_dataset, SharedBatches(batches, self.processes))

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """The batches that this process evaluates, the same every time."""
        pairs = eval_dataset or self.eval_dataset
        batches = list(self._batches(pairs, shuffle=False))
        return self._loader(pairs, batches[self.processes.index :: self.processes.count])

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Loss as the mean over all real target tokens, and scores, of the batches of all processes.

        The Trainer takes the mean over batches, which differ in length and in number of sentences.
        """
        self.model.eval()
        evaluated = [self._evaluated(inputs) for inputs in dataloader]
        batches = _interleaved(self.processes.gather(evaluated))
        rows = sum(batch.rows for batch in batches)
        translations = _together([batch.ids for batch in batches if batch.ids is not None])
        metrics: dict[str, float] = {}
        if self.processes.first:
            total = sum(batch.tokens for batch in batches)
            loss = sum(batch.loss * batch.tokens for batch in batches) / total
            scores = {"loss": loss, **self._scores(loss, rows, translations)}
            metrics = {f"{metric_key_prefix}_{name}": value for name, value in scores.items()}
        metrics = self.processes.gather(metrics)[0]
        if self.training_sample is not None:
            loss = self._mean_loss(self.training_sample)
            metrics[f"{metric_key_prefix}_training_sample_loss"] = loss
        return EvalLoopOutput(translations, None, metrics, rows)

    def _scores(
        self, loss: float, rows: int, translations: Int[np.ndarray, "pair token"]
    ) -> dict[str, Any]:
        """Scores beside the loss: BLEU and chrF of translations, or else perplexity."""
        if not self.args.predict_with_generate:
            return {"perplexity": perplexity(loss), "sentences": rows}
        scores: dict[str, Any] = self.compute_metrics(EvalPrediction(translations, None))
        if "bleu" in scores:
            scores[CHOICE] = choice(scores["bleu"], loss)
        return scores

    def _evaluated(self, inputs: dict[str, Any]) -> Evaluated:
        # Not the model that exchanges gradients: processes may evaluate different numbers of batches.
        rows, tokens = len(inputs["labels"]), int((inputs["labels"] != IGNORED_LABEL).sum())
        if not self.args.predict_with_generate:
            with torch.no_grad(), self.compute_loss_context_manager():
                return Evaluated(float(self.model(**inputs).loss), tokens, rows, None)
        loss, ids, _ = self.prediction_step(self.model, inputs, prediction_loss_only=False)
        return Evaluated(float(loss), tokens, rows, ids.cpu())

    def _mean_loss(self, pairs: TokenPairs) -> float:
        """Mean loss over all real target tokens of some pairs, as of the validation pairs."""
        losses = []
        for inputs in self.get_eval_dataloader(pairs):
            with torch.no_grad(), self.compute_loss_context_manager():
                loss = float(self.model(**inputs).loss)
            losses.append((loss, int((inputs["labels"] != IGNORED_LABEL).sum())))
        batches = _interleaved(self.processes.gather(losses))
        return sum(loss * tokens for loss, tokens in batches) / sum(count for _, count in batches)

    def _batches(self, pairs: TokenPairs, *, shuffle: bool) -> LengthGroupedBatches:
        return LengthGroupedBatches(
            pairs.source_lengths,
            pairs.target_lengths,
            batch_tokens=self.batch_tokens,
            shuffle=shuffle,
            seed=self.args.seed,
        )

    def _loader(self, pairs: TokenPairs, batches: Iterable[list[int]]) -> DataLoader[Any]:
        loader = DataLoader(
            pairs,
            batch_sampler=batches,
            collate_fn=self.data_collator,
            num_workers=0,
            pin_memory=torch.cuda.is_available(),
        )
        from accelerate.data_loader import prepare_data_loader

        # For one process whatever their number: the batches are shared out already.
        return prepare_data_loader(
            loader, self.accelerator.device, num_processes=1, process_index=0, put_on_device=True
        )

    def _get_output_dir(self, trial: Any) -> str:
        """The folder of checkpoints, or that in which one is being written."""
        return self._writing_to or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Not public, but the only code that knows which folder a failed write leaves half full.
        if not self.args.should_save:
            super()._save_checkpoint(model, trial)
            return
        folder, step = Path(self.args.output_dir).parent, self.state.global_step
        best = self.state.best_model_checkpoint
        best_before = None if best is None else checkpoint_step(best)
        try:
            with new_checkpoint(folder, step) as unfinished:
                self._writing_to = str(unfinished)
                super()._save_checkpoint(model, trial)
                kept = self.state.best_global_step and checkpoint_path(
                    folder, self.state.best_global_step
                )
                # The Trainer took the folder that is being written for that of the best checkpoint. In the
                # file is its name alone; `Metrics` says where it is when training goes on.
                self.state.best_model_checkpoint = kept.name if kept else None
                self.state.save_to_json(
                    str(unfinished / checkpoint_path(folder, step).name / STATE)
                )
                self.state.best_model_checkpoint = str(kept) if kept else None
        except (AttnlabError, OSError, RuntimeError, SafetensorError) as error:
            # What is said of a file names the folder that is being written, which is gone again.
            cause = (
                error.__cause__ if isinstance(error, AttnlabError) and error.__cause__ else error
            )
            msg = (
                f"Could not write a checkpoint to {folder / CHECKPOINTS}: {cause}; earlier checkpoints are "
                "unchanged: make room and resume the training."
            )
            raise AttnlabError(msg) from error
        finally:
            self._writing_to = None
        # The best one so far and that of the checkpoint before, from which a damaged one is made again.
        delete_older_checkpoints(folder, {self.state.best_global_step, best_before})

    def _save_rng_state(self, output_dir: str) -> None:
        """Saves where the draws of one process are; several draw anew at each step (`StepSeeds`)."""
        if self.processes.count == 1:
            super()._save_rng_state(output_dir)

    def _load_best_model(self) -> None:
        """Loads the best model in the process that writes it; another need not see its checkpoints."""
        if self.processes.first:
            super()._load_best_model()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Writes weights with their checksum and the configuration; no pickled training arguments."""
        if self.args.should_save:
            save_with_checksum(self.model, output_dir or self.args.output_dir)


def _interleaved(shares: list[list[Any]]) -> list[Any]:
    """Items that were dealt out in turn, in their first order.

    >>> _interleaved([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    return [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]


def _together(batches: list[Int[Tensor, "batch _"]]) -> Int[np.ndarray, "pair token"]:
    """The rows of all batches, as long as the longest; -100 stands behind the others."""
    if not batches:
        return np.empty((0, 0), dtype=np.int64)
    rows = [row for batch in batches for row in batch]
    return pad_sequence(rows, batch_first=True, padding_value=IGNORED_LABEL).numpy()


def evaluation_order(pairs: TokenPairs, batch_tokens: int) -> list[int]:
    """The indices of the pairs in the order in which evaluation meets them."""
    batches = LengthGroupedBatches(
        pairs.source_lengths, pairs.target_lengths, batch_tokens=batch_tokens, shuffle=False
    )
    return [index for batch in batches for index in batch]


def bfloat16_is_native(device: torch.device) -> bool:
    """Whether `device` multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        abilities = torch.cpu.get_capabilities()
        return bool(abilities.get("amx_bf16") or abilities.get("avx512_bf16"))
    return False


def training_device(name: str | None) -> torch.device:
    """The kind of device that a training takes, by its name; None: a GPU if there is one.

    Raises:
        InputError: it cannot be used on this machine, or is one of several GPUs.
    """
    device = usable_device(name)
    if device != torch.device(device.type):
        msg = (
            f"Training takes all GPUs that it sees; choose one by CUDA_VISIBLE_DEVICES={device.index} "
            f"instead of the device '{name}'."
        )
        raise InputError(msg)
    return device


def training_arguments(
    settings: OptimizerSettings,
    folder: Path,
    *,
    target_limit: int,
    translates: bool = True,
    warmup: int,
    spare_parameters: bool = False,
    device: str | None = None,
) -> Seq2SeqTrainingArguments:
    """The Trainer's arguments for `settings`; checkpoints go to `folder`/checkpoints.

    Args:
        settings: of the optimizer.
        folder: the run directory.
        target_limit: most tokens of a translation during evaluation.
        translates: whether evaluation translates; otherwise it gives the loss alone.
        warmup: steps up to the highest learning rate.
        spare_parameters: whether the model may have parameters that a batch does not use.
        device: see `training_device`.

    Raises:
        InputError: see `training_device`.
        AttnlabError: bfloat16 is asked for on a device without it.
    """
    on = training_device(device)
    native = bfloat16_is_native(on)
    if settings.precision == "bf16" and not native:
        msg = f"This {on.type} device has no bfloat16; use precision fp32 or auto."
        raise AttnlabError(msg)
    by_bleu = translates if settings.best is None else settings.best == "bleu"
    # transformers reads a number below 1 as a share of all steps of the training.
    share = 1 / (settings.evaluations_per_epoch * settings.epochs)
    strategy = "epoch" if settings.evaluations_per_epoch == 1 else "steps"
    return Seq2SeqTrainingArguments(
        output_dir=str(folder / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=warmup,
        optim="adamw_torch_fused",
        adam_beta1=0.9,
        adam_beta2=0.98,
        adam_epsilon=1e-9,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        bf16=native and settings.precision != "fp32",
        use_cpu=on.type == "cpu",
        eval_strategy=strategy,
        eval_steps=share,
        save_strategy=strategy,
        save_steps=share,
        load_best_model_at_end=True,
        metric_for_best_model=CHOICE if by_bleu else "loss",
        greater_is_better=by_bleu,
        predict_with_generate=translates,
        generation_max_length=target_limit,
        generation_num_beams=1,
        logging_strategy="steps",
        logging_steps=20,
        logging_nan_inf_filter=False,
        report_to=[],
        disable_tqdm=True,
        # Processes other than the first say no more than it does.
        log_level_replica="passive",
        seed=settings.seed,
        data_seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        ddp_find_unused_parameters=spare_parameters,
    )


class Interruption(TrainerCallback):
    """Ends training after the current step when Ctrl-C, SIGTERM or SIGHUP came, with a checkpoint written.

    A signal to one of several processes ends all of them, after the same step.
    """

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.asked = False
        self.agreed = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside the block the first signal is remembered; a second Ctrl-C stops at once."""

        def remember(number: int) -> None:
            # Batch systems and launchers may both send SIGTERM.
            if self.asked and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked = True

        with answering(remember):
            yield

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> None:
        """Asks the Trainer to stop."""
        self.agreed = self.processes.any(self.asked)
        if self.agreed:
            control.should_training_stop = True

    def on_epoch_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Saves, without evaluating in the middle of an epoch: the user is waiting.

        The end of an epoch is evaluated all the same: training that goes on starts behind it.
        """
        if self.agreed:
            if not float(state.epoch or 0.0).is_integer():
                control.should_evaluate = False
            control.should_save = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Takes up a signal that came after the last step."""
        self.agreed = self.processes.any(self.asked)


class StepSeeds(TrainerCallback):
    """Seeds each step of several processes, so that dropout differs between them, but not on resuming."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self.processes = processes
        self.seed = seed

    def on_step_begin(self, args: Any, state: TrainerState, control: Any, **_: Any) -> None:
        """Seeds torch; one process goes on drawing instead."""
        if self.processes.count > 1:
            parts = np.random.SeedSequence([self.seed, self.processes.index, state.global_step])
            torch.manual_seed(int(parts.generate_state(1)[0]))
