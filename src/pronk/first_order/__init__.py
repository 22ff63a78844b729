"""First order on support vectors: one loop over rows, rules for what happens to a full budget."""
