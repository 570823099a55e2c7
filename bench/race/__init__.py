"""Who translates better after so many minutes: `fit`, or what else a person would use?"""
