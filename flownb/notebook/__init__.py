"""What a person sees and does in a cell: the panel, its forms, its static twin."""
