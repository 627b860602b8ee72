"""Ray and the machines: start, join, ask nodes, storage, the version of the code."""
