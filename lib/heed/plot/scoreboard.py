"""The scoreboard of a chapter: one number, a row for every repair and for its control."""

from html import escape


class Scoreboard:
    """A small table that grows: a notebook shows it where it is a cell's last line.

        board = Scoreboard("both digits right")
        board.add("one head", 0.24)

    numbers: the heads of its columns, one or more
    last: the table shows its first row and so many of the last ones
    """

    def __init__(self, *numbers, last=4):
        self.numbers, self.rows, self.last = numbers, [], last

    def add(self, name, *values):
        """Add a row. Returns the scoreboard.

        name: what was done
        values: one for each column: whole numbers and words as they are, others with two decimals

        Raises ValueError if there are more values than columns, or fewer.
        """
        if len(values) != len(self.numbers):
            raise ValueError(f"{name}: {len(values)} values for {len(self.numbers)} columns {self.numbers}.")
        said = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
        self.rows.append((str(name), *said))
        return self

    def shown(self):
        """The rows that are shown."""
        return self.rows[:1] + self.rows[1:][-self.last :]

    def __repr__(self):
        table = [("", *self.numbers), *self.shown()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in table
        )

    def _repr_html_(self):
        def line(fields, tag, style=""):
            cells = (
                f'<{tag} style="text-align: {"right" if i else "left"}{style}">{escape(field)}</{tag}>'
                for i, field in enumerate(fields)
            )
            return f"<tr>{''.join(cells)}</tr>"

        last = "; font-weight: bold"
        rows = [line(row, "td", last * (row is self.rows[-1])) for row in self.shown()]
        return f"<table>{line(['', *self.numbers], 'th')}{''.join(rows)}</table>"
