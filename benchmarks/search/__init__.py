"""Search strategies replayed on a recorded grid."""
