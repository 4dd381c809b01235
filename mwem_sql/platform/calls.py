"""Calls that are running, and how to stop them: by Ctrl-C, or from another thread by `mwem_sql.cancel`.

A function that DuckDB calls runs on a thread of DuckDB's, where no signal arrives, and DuckDB itself notices an interrupt only when
it returns. So a call is stopped from outside: the statements it waits for are interrupted, and an exception is raised in its thread.
Owns the process's Ctrl-C while statements run. Must not know what a call does, and prints nothing.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol, TypeVar

import duckdb

from mwem_sql.errors import CancelledError, refuse

Result = TypeVar("Result")


class Interruptible(Protocol):
    """A connection whose statements can be stopped from another thread."""

    def interrupt(self) -> None: ...


Tracked = TypeVar("Tracked", bound=Interruptible)

_AGAIN = 0.05  # seconds: an exception that falls into a destructor is lost, and an interrupt between two statements
_LEAVE = 0.25  # seconds that DuckDB's threads take from a call's end to that of its statement

_GUARD = threading.RLock()
_RUNNING: set[Call] = set()
_HERE = threading.local()
_LISTENING = threading.Event()
_SAID: list[str] = []  # what calls said that were stopped since the last statement of a shell began
_ANSWERED = threading.Event()  # a signal has stopped calls, and its handler has not run yet


UNKNOWN = "mwem_ledger() tells whether it was charged already; what was stored before is kept"


class _Stop(BaseException):
    """Raised in the thread of a call that is to stop. No `except Exception` holds it up."""


class Call:
    """One call, on one thread. `interrupted`: by Ctrl-C; `told`: and the main thread knows. `standing`: what is to be said if it is stopped."""

    def __init__(self) -> None:
        self.standing = UNKNOWN
        self.stopped = self.interrupted = self.told = False
        self._shielded = False
        self._thread = threading.get_ident()
        self._connections: list[weakref.ref[Interruptible]] = []

    def track(self, con: Interruptible) -> None:
        self._connections.append(weakref.ref(con))

    def stop(self, *, by_signal: bool) -> None:
        self.stopped, self.interrupted = True, by_signal
        _keep_quiet_of_lost_stops()
        threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        while True:
            with _GUARD:
                if self not in _RUNNING:
                    return
                if not self._shielded:
                    _raise(self._thread, _Stop)
                    for known in self._connections:
                        con = known()
                        with suppress(Exception):  # of whatever engine's driver
                            if con is not None:
                                con.interrupt()
            time.sleep(_AGAIN)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """What must be written down even if the call is being stopped."""
        with _GUARD:
            self._shielded = True
            self._take_back()
        try:
            yield
        finally:
            self._shielded = False

    def end(self) -> None:
        """From here on nothing is raised; maybe for the second time."""
        ended = False
        while not ended:
            try:
                with _GUARD:
                    _RUNNING.discard(self)
                    _HERE.call = None
                    self._take_back()
                    ended = True
            except _Stop:
                pass

    def _take_back(self) -> None:
        """Raise here and now, to no effect, what was to be raised in this thread and was not yet.

        Python could be told to forget it, but would then look for it forever; under a profiler, without getting any further.
        """
        if self.stopped:
            try:
                _raise(self._thread, _Stop)
                while True:
                    pass
            except _Stop:
                pass


def _raise(thread: int, kind: type[BaseException]) -> None:
    """Let a thread raise an exception when it next runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _keep_quiet_of_lost_stops() -> None:
    """Let Python not print "Exception ignored" of a stop that fell into a destructor or a collector's callback: it is raised again."""
    say = sys.unraisablehook
    if getattr(say, "is_quiet_of_stops", False):
        return

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not _Stop:
            say(lost)

    hook.is_quiet_of_stops = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def run(function: str, work: Callable[[], Result], *, from_python: bool = False) -> Result:
    """Work that can be stopped, on this thread; a CancelledError says that it was, or in Python a KeyboardInterrupt.

    A function and no context manager: what is raised while one is left would be nobody's.
    """
    call = Call()
    try:
        try:
            with _GUARD:
                _RUNNING.add(call)
            _HERE.call = call
            return work()
        finally:
            call.end()
    except BaseException:
        call.end()  # it may have been stopped at its end
        if not call.stopped:
            raise
    # Whatever it ended with: an interrupted statement looks like an error of DuckDB's.
    stopped = refuse(CancelledError, function, "the call was stopped", call.standing)
    _SAID.append(str(stopped))
    if from_python and call.interrupted:
        raise KeyboardInterrupt(str(stopped))
    raise stopped


def stands(standing: str) -> None:
    """What is to be said from here on if the call of this thread, if any, is stopped: what it has done, and how to go on."""
    call = getattr(_HERE, "call", None)
    if call is not None:
        call.standing = standing


def track(con: Tracked) -> Tracked:
    """Have the statements of a connection, of DuckDB's or of another engine's, interrupted if the call of this thread, if any, is stopped."""
    call = getattr(_HERE, "call", None)
    if call is not None:
        call.track(con)
    return con


@contextmanager
def shielded() -> Iterator[None]:
    """`Call.shielded` of the call of this thread, if any."""
    call = getattr(_HERE, "call", None)
    if call is None:
        yield
    else:
        with call.shielded():
            yield


def cancel() -> int:
    """Stop every call of this process that is running, in whatever thread; how many there were. Does not wait for their end.

    A release that was debited stays charged; it is stored as a whole or not at all.
    """
    return _stop_all(by_signal=False)


def finish(seconds: float) -> None:
    """Stop all calls and wait for their end: a thread that comes back to Python when Python has ended makes it abort."""
    deadline = time.monotonic() + seconds
    if cancel():
        while _RUNNING and time.monotonic() < deadline:
            time.sleep(_AGAIN)
        time.sleep(_LEAVE)


def _stop_all(*, by_signal: bool) -> int:
    with _GUARD:
        chosen = [call for call in _RUNNING if not call.stopped]
        for call in chosen:
            call.stop(by_signal=by_signal)
    return len(chosen)


class _WakeUp:
    """A thread that acts on Ctrl-C at once, through Python's wake-up descriptor.

    A signal handler alone comes too late: it waits for the main thread, which waits for DuckDB (on 2.0, up to 50 s in a join).
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        self._thread = threading.Thread(target=self._hear, args=(act,), daemon=True)
        self._thread.start()
        self.replaced = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)

    def _hear(self, act: Callable[[], object]) -> None:
        while number := self._ear.recv(1):
            if number[0] == signal.SIGINT:
                act()

    def close(self) -> None:
        """Give the descriptor back to whoever had it, and wait for what the thread still does."""
        signal.set_wakeup_fd(self.replaced)
        self._mouth.close()
        self._thread.join()
        self._ear.close()


def listen() -> None:
    """Let Ctrl-C stop calls that are running; where there are none, it does what it did. Not where others handle the signal.

    A handler that raised KeyboardInterrupt while a call runs would make DuckDB 1.x abandon the call's thread and crash.
    """
    if threading.current_thread() is not threading.main_thread() or _LISTENING.is_set():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    wake_up = _WakeUp(_on_wake_up)
    if wake_up.replaced != -1:
        wake_up.close()
        return
    _LISTENING.set()
    signal.signal(signal.SIGINT, _on_signal)


@contextmanager
def interruptible(
    con: duckdb.DuckDBPyConnection, on_first: Callable[[], object], on_second: Callable[[], object]
) -> Iterator[None]:
    """Let Ctrl-C interrupt the statement of a connection, and end in KeyboardInterrupt. For a program that owns its process.

    The handler does nothing: one that raised while DuckDB works would make 1.x leave a release running on a thread of its own, and
    crash. The first Ctrl-C stops all calls and the statement, then calls `on_first`; later ones call `on_second`, which need not wait. The
    KeyboardInterrupt has what the calls said that were stopped.
    """
    _SAID.clear()
    heard = threading.Event()

    def act() -> None:
        if heard.is_set():
            on_second()
            return
        heard.set()
        cancel()
        con.interrupt()
        on_first()

    handler = signal.signal(signal.SIGINT, lambda *_: None)
    wake_up = _WakeUp(act)
    try:
        yield
    finally:
        wake_up.close()
        signal.signal(signal.SIGINT, handler)
        if heard.is_set():
            raise KeyboardInterrupt("\n".join(_SAID))


def _on_wake_up() -> None:
    with _GUARD:
        if _stop_all(by_signal=True):
            _ANSWERED.set()


def _on_signal(number: int, frame: FrameType | None) -> None:
    with _GUARD:
        _stop_all(by_signal=True)  # the listener may have been first, and the call may have ended since
        news = [call for call in _RUNNING if call.interrupted and not call.told]
        for call in news:
            call.told = True
        is_answered = bool(news) or _ANSWERED.is_set()
        _ANSWERED.clear()
    if not is_answered:
        signal.default_int_handler(number, frame)
