"""How findings look: text, csv, json, LaTeX and html; charts; the site."""
