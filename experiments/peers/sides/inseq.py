"""inseq: attention as the attribution of each token of a sentence to those before it."""

from pathlib import Path

from experiments.peers.serving import Describe, Work, serve
from experiments.peers.sides.loading import load_ids, load_model, load_tokenizer


def capture(folder: Path) -> Work:
    """All weights of each sentence; the first token is the prompt, the others are given as generated."""
    import inseq

    tokenizer = load_tokenizer(folder / "gpt2")
    model = inseq.load_model(load_model(folder / "gpt2"), "attention", tokenizer=tokenizer)
    texts = [tokenizer.decode(row) for row in load_ids(folder)]
    prompts = [text.split()[0] for text in texts]

    def work() -> Describe:
        found = [
            model.attribute(prompt, text, show_progress=False)
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        return lambda: (
            {"units": len(texts)}
            | {
                str(number): one.sequence_attributions[0].target_attributions.numpy()
                for number, one in enumerate(found)
            }
        )

    return work


if __name__ == "__main__":
    serve({"one_by_one": capture})
