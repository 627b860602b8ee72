"""Who proposes the next cell of a search."""
