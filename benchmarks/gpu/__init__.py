"""Everything that is to be shown on a card, part by part, within a time limit; the next call goes on where it ended."""
