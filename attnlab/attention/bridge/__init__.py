"""Mechanisms inside transformers models."""
