"""Parts that methods share: pooling, prompts, projectors, queues."""
