"""Loss functions, which depend on nothing but torch."""

__all__ = [
    "bits_per_dimension",
    "contrastive_tension",
    "corrective_lm",
    "energy",
    "info_nce",
    "masked_lm",
    "mutual_information",
    "nt_xent",
    "replaced_token",
    "self_guided",
    "siamese",
]
