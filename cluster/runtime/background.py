"""Work that goes on in a thread while a block runs."""

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` in a thread while inside; it ends soon after the event that it is given is set."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(5)
