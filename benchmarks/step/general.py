"""One SimCSE step of encoders that run through transformers' AutoModel, against sentence-transformers' trainer.

Equal batches of real sentences, equal encoders of four layers 256 wide with random weights, dropout 0.1, one thread,
fp32; the peer by default and given our oneDNN flag. BERT, which our own encoder computes, stands beside. Padding is
what the length groups of our batches compute beyond the sentences' own tokens.

    python -m benchmarks.step.general [--kinds modernbert,xlm-roberta,distilbert,bert] [--seconds 60] [--data DIR]
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.paired import Step, SteppedLoop, interleaved, median_ms, ratio, timed
from benchmarks.step.ours import advance, our_session
from benchmarks.step.peers import sentence_transformers_loop
from benchmarks.step.setting import DATA, one_thread, sentences, tokenizer
from benchmarks.step.turns import flagged
from cse_train.numerics import keep_freed_memory

LAYERS, WIDTH, HEADS, ROWS = 4, 256, 4, 64
NAMED = {
    "distilbert": {"n_layers": LAYERS, "dim": WIDTH, "n_heads": HEADS, "hidden_dim": 4 * WIDTH},
    "modernbert": dict.fromkeys(("attention_dropout", "embedding_dropout", "mlp_dropout"), 0.1),
}
"""Architecture -> its names for the sizes, and the dropout rates that it leaves at 0."""
BATCHES = 60
"""Number of batches whose padding is counted."""
OURS, PEER, GIVEN = "ours", "sentence-transformers' trainer", "sentence-transformers' trainer + flag"


def write_encoder(kind: str, folder: Path) -> Path:
    """An encoder of this architecture with random weights, and BERT's tokenizer."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    torch.manual_seed(0)
    words = tokenizer()
    sizes: dict[str, Any] = {
        "vocab_size": 30522,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * WIDTH,
        "max_position_embeddings": 512,
        **{f"{role}_token_id": getattr(words, f"{role}_token_id") for role in ("pad", "cls", "sep")},
        "bos_token_id": words.cls_token_id,
        "eos_token_id": words.sep_token_id,
    }
    AutoModel.from_config(CONFIG_MAPPING[kind](**{**sizes, **NAMED.get(kind, {})})).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@contextlib.contextmanager
def contenders(kind: str, texts: list[str]) -> Iterator[tuple[dict[str, Step], float]]:
    """Our step and the peer's, and the share of padding in our batches."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        work = Path(name)
        folder = write_encoder(kind, work / "encoder")
        session = our_session(folder, texts, ROWS, work)
        packs = [packed for step in range(BATCHES) for packed in session.batches[step].inputs.values()]
        slots = sum(group.rows * group.needed for packed in packs for group in packed.groups)
        padding = 1 - sum(int(packed.host_lengths_N.sum()) for packed in packs) / slots
        steps: dict[str, Step] = {OURS: flagged(timed(lambda: advance(session)))}
        for key in (PEER, GIVEN):
            loop = stack.enter_context(SteppedLoop(sentence_transformers_loop(folder, texts, ROWS, work / key[-6:])))
            steps[key] = flagged(loop) if key == GIVEN else loop
        yield steps, padding


def measure(kind: str, texts: list[str], seconds: float, rounds: int) -> list[str]:
    """The table's rows of one architecture."""
    with contenders(kind, texts) as (steps, padding):
        times: Mapping[str, Any] = interleaved(steps, rounds, seconds, warm=2)
    return [
        f"| {kind} | {who} | {median_ms(of):.0f} | {'1' if who == OURS else ratio(of, times[OURS])} | "
        f"{f'{padding:.1%}' if who == OURS else ''} |"
        for who, of in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="modernbert,xlm-roberta,distilbert,bert")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    texts = sentences(4096, given.data)
    print("| encoder | step | CPU ms | times ours | padding |\n|---|---|--:|--:|--:|")
    for kind in given.kinds.split(","):
        print("\n".join(measure(kind, texts, given.seconds, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
