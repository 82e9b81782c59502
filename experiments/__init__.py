"""The scripts behind results/: a folder for each, with its template of a README."""
