"""The colours of the charts, and the months of the data's year."""

INK, PALE, GROUND, EMPTY, GRID = "#1f2933", "#66727f", "#ffffff", "#eef1f4", "#e4e8ec"
COLOURS = ("#1d4ed8", "#c81e1e", "#15803d", "#b45309")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
