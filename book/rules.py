"""The book's rules."""


def complaints(path):
    return []
