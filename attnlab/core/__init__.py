"""What every part stands on: errors, settings, files, tables, processes; nothing of attention."""
