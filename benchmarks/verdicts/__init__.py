"""How often verdicts are wrong where the truth is known, how often they decide, and today's tables graded again."""
