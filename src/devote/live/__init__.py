"""`devote watch`: a page in the browser that reads run directories and shows them."""
