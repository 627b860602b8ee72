"""A comparison of world sizes: FOLDER ENCODER TRAIN_FILE TRIPLETS_FILE LABELLED_FILE.

For every case, three steps on each rank's share of a fixed global batch; rank 0 keeps losses and DDP's gradients, or
the statistics of a method that is fitted.
The ranks of all worlds fork from this process before it computes anything, so that the imports are paid once.
"""

import multiprocessing
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from cse_train import distributed, random_streams
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from cse_train.text.file_corpora import LABELLED_COLUMNS, PAIR_COLUMNS
from cse_train.training.batches import Batches

SHORT_SPANS = {
    "method.min_length": 1,
    "method.max_length": 2,
    "method.short_documents": "adapt",
    "method.mlm_probability": 0.5,
}
FILLED = {"method": "diffcse", "method.generator": "words-l1-h64", "method.generator_dropout": False}
CORRUPTED = {"method": "d2cse", "method.generator": "words-l1-h64", "method.lambda_weight": 0.5}
GUIDED = {"method": "sgopt", "method.projection_width": 24, "method.temperature": 0.1}
WORDS = {
    "method": "infersent",
    "train.encoder": str(Path(__file__).with_name("word_vectors.txt")),
    "method.units": 12,
    "method.hidden": 8,
}
CASES = {
    "simcse": {"method": "simcse"},
    "simcse_mlm": {"method": "simcse", "method.mlm_weight": 0.1},
    "simcse_mean": {"method": "simcse", "method.pooler": "mean"},
    "simcse_triplets": {"method": "simcse", "method.objective": "triplets", "method.hard_negative_weight": 2.0},
    "simcse_two_next": {"method": "simcse", "method.encoders": "two", "method.objective": "next_3_sentences"},
    "simcse_crop_batchnorm": {
        "method": "simcse",
        "method.augmentation": "crop",
        "method.augmentation_rate": 0.3,
        "method.projector": "batchnorm",
        "method.temperature": 0.5,
    },
    "simcse_mlm_view": {
        "method": "simcse",
        "method.augmentation": "mlm",
        "method.augmentation_rate": 0.3,
        "method.generator": "words-l1-h64",
    },
    "esimcse": {"method": "esimcse", "method.momentum": 0.9},
    "esimcse_predicted": {
        "method": "esimcse",
        "method.extension": "masked_prediction",
        "method.generator": "words-l1-h64",
        "method.momentum": 0.9,
        "method.temperature": 0.5,
    },
    "dcpcse_mlm": {"method": "dcpcse", "method.mlm_weight": 0.1, "method.projector": "batchnorm"},
    "dcpcse_energy": {"method": "dcpcse", "method.objective": "triplets", "method.energy_margin": 0.2},
    "d2cse": {**CORRUPTED, "method.cls_prompt": True},
    "d2cse_trained_detector": {
        **CORRUPTED,
        "method.framework": "b",
        "method.objective": "triplets",
        "method.reduction": "sum",
        "method.lambda_weight": 0.005,
        "method.temperature": 0.5,
    },
    "declutr": {"method": "declutr", **SHORT_SPANS},
    "declutr_contrastive": {"method": "declutr", "method.objective": "contrastive", **SHORT_SPANS},
    "declutr_masked_lm": {"method": "declutr", "method.objective": "masked_lm", **SHORT_SPANS},
    "diffcse": {**FILLED, "method.lambda_weight": 0.5},
    "diffcse_edits": {
        **FILLED,
        "method.lambda_weight": 0.5,
        "method.operator": "all",
        "method.source": "both",
        "method.reduction": "mean_attended",
    },
    "diffcse_masked_lm": {**FILLED, "method.task": "masked_lm", "method.lambda_weight": 0.5},
    "diffcse_corrective_lm": {**FILLED, "method.task": "corrective_lm", "method.lambda_weight": 0.5},
    "diffcse_negatives": {**FILLED, "method.task": "none", "method.extra": "negatives"},
    "flow": {"method": "flow", "method.width": 8},
    "whitening": {"method": "whitening"},
    "ct": {"method": "ct"},
    "ct_independent": {"method": "ct", "method.negatives": 3, "method.pairing": "independent"},
    "mirrorbert": {"method": "mirrorbert"},
    "consert": {"method": "consert", "method.augmentation_1": "token_cutoff", "method.token_cutoff_rate": 0.4},
    "sgopt": {**GUIDED, "method.objective": "opt3"},
    "sgopt_base": {**GUIDED, "method.objective": "base"},
    "sgopt_opt1": {**GUIDED, "method.objective": "opt1", "method.train_embeddings": True},
    "isbert": {"method": "isbert"},
    "diffcse_triplets": {
        **FILLED,
        "method.objective": "triplets",
        "method.lambda_weight": 0.5,
        "method.hard_negative_weight": 2.0,
        "method.temperature": 0.5,
    },
    "sbert": {"method": "sbert"},
    "sbert_triplets": {"method": "sbert", "method.objective": "triplets"},
    "infersent": {**WORDS, "method.activation": "tanh"},
    "infersent_mean": {**WORDS, "method.pooling": "mean"},
    "promptbert": {"method": "promptbert"},
    "cmlm": {"method": "cmlm", "method.masking_ratio": 0.4},
}


def cases_of(world: int) -> list[str]:
    """Every case; for four ranks the first one of each method."""
    first = {case["method"]: name for name, case in reversed(CASES.items())}
    return [name for name in CASES if world < 4 or name in first.values()]


def losses_and_gradients(settings: dict, encoder: str, *files: Path) -> list[dict]:
    shared = {"train.encoder": encoder, "train.corpus": "file", "train.batch_size": 8, "train.dropout": 0.0}
    shared |= {"train.max_seq_length": 16}
    run = parse_run(shared | settings)
    columns = load_method(run.method).columns(run.options)
    corpus = dict(zip((("text",), PAIR_COLUMNS, LABELLED_COLUMNS), files, strict=True)).get(columns, files[0])
    backbone = load_backbone(run.train.encoder, run.train.dropout)
    batches = Batches.open(run, DataPaths(train_file=corpus), backbone)
    random_streams.seed_new_weights(0)
    model = load_method(run.method).build(run.options, backbone).train()
    trained = distributed.wrap(model)
    steps = []
    for step in range(3):
        output = trained(batches[step])
        gradients = {name: buffer.double() for name, buffer in model.named_buffers()}
        if output.loss.requires_grad:
            output.loss.backward()
            gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        loss = distributed.average(output.loss)
        steps.append({"loss": loss, "gradients": gradients})
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.01 * parameter.grad
        model.zero_grad()
    return steps


def run_rank(rank: int, world: int, folder: Path, encoder: str, *files: Path) -> None:
    torch.set_num_threads(1)
    if world > 1:
        rendezvous = f"file://{folder}/rendezvous{world}"
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)
    results = {name: losses_and_gradients(CASES[name], encoder, *files) for name in cases_of(world)}
    if rank == 0:
        torch.save(results, folder / f"w{world}.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


def main(folder: Path, encoder: Path, *files: Path) -> int:
    fork = multiprocessing.get_context("fork")
    for world in (1, 2, 4):
        arguments = (world, folder, str(encoder), *files)
        ranks = [fork.Process(target=run_rank, args=(rank, *arguments), daemon=True) for rank in range(world)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
