"""How much heads matter: ablation, gradients, gates, significance."""
