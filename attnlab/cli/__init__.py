"""The command line: parse, call, print."""

from attnlab.core import processor_times

# Before anything heavy is imported, so that a command knows how busy the machine was meanwhile.
BEGINNING = processor_times()
