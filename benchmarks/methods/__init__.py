"""Steps of the methods against plain implementations."""
