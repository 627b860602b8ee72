"""What a decision costs: verdicts of published tables, beside the released recipe with Welch's test at three seeds."""
