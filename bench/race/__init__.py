"""Who translates better after so many minutes: `fit`, and what else a person would use, on the same captions."""
