"""transformers' Seq2SeqTrainer with length-grouped batches and checkpoints without pickles."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from jaxtyping import Int
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import EvalPrediction, Seq2SeqTrainer, Seq2SeqTrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from attnlab.errors import AttnlabError
from attnlab.processes import Processes
from attnlab.translation.batches import LengthGroupedBatches, SharedBatches, TokenPairs
from attnlab.translation.configuration import IGNORED_LABEL
from attnlab.translation.runs.files import CHECKPOINTS, checkpoint_path, delete_older_checkpoints
from attnlab.translation.settings import OptimizerSettings

# The Trainer compares one number: BLEU, of which a billionth of the loss decides ties.
CHOICE = "bleu_then_loss"
# Below so many points BLEU counts chance matches of frequent words; no sentence can be read.
READABLE_BLEU = 3.0


def choice(bleu: float, loss: float) -> float:
    """What the best checkpoint has most of: readable BLEU, and without or at equal BLEU the lower loss.

    >>> choice(0.2, 6.5) > choice(0.4, 7.1), choice(9.0, 4.0) > choice(8.0, 3.0)
    (True, True)
    """
    return (bleu if bleu >= READABLE_BLEU else 0.0) - 1e-9 * loss


class TranslationTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer that batches by length under a token budget, in training and in evaluation.

    Several processes share each batch of training, and the batches of evaluation. The Trainer divides
    the loss of each part by the tokens of the whole batch, so that gradients are those of one process.
    """

    def __init__(self, *, batch_tokens: int, processes: Processes, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_tokens = batch_tokens
        self.processes = processes

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
        description: str,  # noqa: ARG002 - the Trainer's signature
        prediction_loss_only: bool | None = None,  # noqa: ARG002
        ignore_keys: list[str] | None = None,  # noqa: ARG002
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Loss as the mean over all real target tokens, and scores, of the batches of all processes.

        The Trainer takes the mean over batches, which differ in length and in number of sentences.
        """
        self.model.eval()
        own = [self._evaluated(inputs) for inputs in dataloader]
        batches = _in_turn(self.processes.gather(own))
        translations = _together([ids for _, _, ids in batches])
        metrics: dict[str, float] = {}
        if self.processes.first:
            total = sum(tokens for _, tokens, _ in batches)
            loss = sum(loss * tokens for loss, tokens, _ in batches) / total
            found = {"loss": loss, **self.compute_metrics(EvalPrediction(translations, None))}
            if "bleu" in found:
                found[CHOICE] = choice(found["bleu"], loss)
            metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        metrics = self.processes.gather(metrics)[0]
        return EvalLoopOutput(translations, None, metrics, len(translations))

    def _evaluated(self, inputs: dict[str, Any]) -> tuple[float, int, Int[Tensor, "batch token"]]:
        """The loss of a batch, of how many tokens it is the mean, and the translations as token ids."""
        # Not the model that exchanges gradients: processes may evaluate different numbers of batches.
        loss, ids, _ = self.prediction_step(self.model, inputs, prediction_loss_only=False)
        tokens = int((inputs["labels"] != IGNORED_LABEL).sum())
        return float(loss), tokens, ids.cpu()

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
        # For one process whatever their number: the batches are shared out already.
        return prepare_data_loader(
            loader, self.accelerator.device, num_processes=1, process_index=0, put_on_device=True
        )

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Not public, but the only code that knows which folder a failed write leaves half full.
        folder = Path(self.args.output_dir).parent
        if not self.args.should_save:
            super()._save_checkpoint(model, trial)
            return
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(checkpoint_path(folder, self.state.global_step), ignore_errors=True)
            msg = (
                f"Could not write a checkpoint to {folder / CHECKPOINTS}: {error}; earlier checkpoints are "
                "unchanged: make room and go on with --resume."
            )
            raise AttnlabError(msg) from error
        delete_older_checkpoints(folder, self.state.best_global_step)

    def _save_rng_state(self, output_dir: str) -> None:
        """One process goes on drawing where it was; several draw anew at each step (`StepSeeds`)."""
        if self.processes.count == 1:
            super()._save_rng_state(output_dir)

    def _load_best_model(self) -> None:
        """In the process that writes the model; another need not see its checkpoints."""
        if self.processes.first:
            super()._load_best_model()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Weights as safetensors and the configuration; no pickled training arguments beside them."""
        if self.args.should_save:
            self.model.save_pretrained(output_dir or self.args.output_dir)


def _in_turn(shares: list[list[Any]]) -> list[Any]:
    """What was dealt out in turn, in the order before.

    >>> _in_turn([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    return [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]


def _together(batches: list[Int[Tensor, "batch _"]]) -> Int[np.ndarray, "pair token"]:
    """The rows of all batches, as long as the longest; -100 stands behind the others."""
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


def training_arguments(
    settings: OptimizerSettings,
    folder: Path,
    *,
    target_limit: int,
    warmup: int,
    spare_parameters: bool = False,
) -> Seq2SeqTrainingArguments:
    """The Trainer's arguments for `settings`; checkpoints go to `folder`/checkpoints.

    Args:
        settings: of the optimizer.
        folder: the run directory.
        target_limit: most tokens of a translation during evaluation.
        warmup: steps up to the highest learning rate.
        spare_parameters: whether the model may have parameters that a batch does not use.

    Raises:
        AttnlabError: bfloat16 is asked for on a device without it.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    native = bfloat16_is_native(device)
    if settings.precision == "bf16" and not native:
        msg = f"This {device.type} device has no bfloat16; use --precision fp32 or auto."
        raise AttnlabError(msg)
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
        use_cpu=device.type == "cpu",
        eval_strategy=strategy,
        eval_steps=share,
        save_strategy=strategy,
        save_steps=share,
        load_best_model_at_end=True,
        metric_for_best_model=CHOICE if settings.best == "bleu" else "loss",
        greater_is_better=settings.best == "bleu",
        predict_with_generate=True,
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
