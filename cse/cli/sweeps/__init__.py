"""Commands that plan and train."""
