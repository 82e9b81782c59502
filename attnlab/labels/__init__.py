"""The labels that a head can have, a file each, registered in `attnlab.labels.counting`."""
