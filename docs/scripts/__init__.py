"""Programs that write parts of docs/ from the code: the reference pages and the terminal recording."""
