"""What a form is made of: ipywidgets for each kind of field, and what they lack."""
