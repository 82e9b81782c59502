"""How well each mechanism stands in for full attention at equal budgets."""
