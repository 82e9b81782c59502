"""Figures as matplotlib draws them: style, colours, and what several questions draw."""
