"""Black-box programs that put a real server under pressure, each with a result; storm runs them."""
