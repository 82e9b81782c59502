"""transformers' Seq2SeqTrainer with length-grouped batches and checkpoints without pickles."""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.utils.data import DataLoader
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from attnlab.errors import AttnlabError
from attnlab.translation.batches import LengthGroupedBatches, TokenPairs
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
    """Seq2SeqTrainer that batches by length under a token budget, in training and in evaluation."""

    def __init__(self, *, batch_tokens: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_tokens = batch_tokens
        self._evaluated: list[tuple[float, int]] = []

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches in a new order every epoch."""
        return self._batched(self.train_dataset, shuffle=True)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """The same batches every time."""
        return self._batched(eval_dataset or self.eval_dataset, shuffle=False)

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """The Trainer's own, with the loss as the mean over all real target tokens.

        The Trainer takes the mean over batches, which differ in length and in number of sentences.
        """
        self._evaluated = []
        output = super().evaluation_loop(
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        total = sum(loss * tokens for loss, tokens in self._evaluated)
        tokens = sum(tokens for _, tokens in self._evaluated)
        metrics = output.metrics
        metrics[f"{metric_key_prefix}_loss"] = total / tokens
        if f"{metric_key_prefix}_bleu" in metrics:
            metrics[f"{metric_key_prefix}_{CHOICE}"] = choice(
                metrics[f"{metric_key_prefix}_bleu"], total / tokens
            )
        return output

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], *rest: Any, **options: Any
    ) -> tuple[Any, Any, Any]:
        """The Trainer's own; notes the loss of the batch and how many tokens it is the mean of."""
        found = super().prediction_step(model, inputs, *rest, **options)
        tokens = int((inputs["labels"] != IGNORED_LABEL).sum())
        self._evaluated.append((float(found[0]), tokens))
        return found

    def _batched(self, pairs: TokenPairs, *, shuffle: bool) -> DataLoader[Any]:
        sampler = LengthGroupedBatches(
            pairs.source_lengths,
            pairs.target_lengths,
            batch_tokens=self.batch_tokens,
            shuffle=shuffle,
            seed=self.args.seed,
        )
        loader = DataLoader(
            pairs,
            batch_sampler=sampler,
            collate_fn=self.data_collator,
            num_workers=0,
            pin_memory=torch.cuda.is_available(),
        )
        return self.accelerator.prepare(loader)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # Not public, but the only code that knows which folder a failed write leaves half full.
        folder = Path(self.args.output_dir).parent
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(checkpoint_path(folder, self.state.global_step), ignore_errors=True)
            msg = (
                f"Could not write a checkpoint to {folder / CHECKPOINTS}: {error}; earlier checkpoints are "
                "unchanged: make room and go on with --resume."
            )
            raise AttnlabError(msg) from error
        if self.args.should_save:
            delete_older_checkpoints(folder, self.state.best_global_step)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Weights as safetensors and the configuration; no pickled training arguments beside them."""
        if self.args.should_save:
            self.model.save_pretrained(output_dir or self.args.output_dir)


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
    settings: OptimizerSettings, folder: Path, *, target_limit: int, warmup: int
) -> Seq2SeqTrainingArguments:
    """The Trainer's arguments for `settings`; checkpoints go to `folder`/checkpoints.

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
        seed=settings.seed,
        data_seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
