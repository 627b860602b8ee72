"""What `cse compare` and `cse gate` print."""
