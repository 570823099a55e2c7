"""Files that are whole or not there: saving a training so that it can go on, bit for bit, after any accident."""
