"""What a question shows and asks for, whatever draws it: widgets in a notebook or a page of HTML."""
