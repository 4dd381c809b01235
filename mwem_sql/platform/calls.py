"""Calls that are running: how to stop them, how far they are, and Python's collector of cycles while they run.

A call is stopped by Ctrl-C, or from another thread by `mwem_sql.cancel`. A function that DuckDB calls runs on a thread
of DuckDB's, where no signal arrives, and DuckDB itself notices an interrupt only when it returns. So a call is stopped
from outside: the statements it waits for are interrupted, and an exception is raised in its thread.
Owns the process's Ctrl-C while statements run, and who listens to progress. Must not know what a call does, and prints
nothing.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Literal, Protocol, TypeAlias, TypeVar

import duckdb

from mwem_sql.errors import CancelledError, refuse

Result = TypeVar("Result")


class Interruptible(Protocol):
    """A connection whose statements can be stopped from another thread."""

    def interrupt(self) -> None: ...


Tracked = TypeVar("Tracked", bound=Interruptible)

RETRY_SECONDS = 0.05
"""Seconds between two attempts to stop a call: an exception that falls into a destructor is lost, and so is an
interrupt between two statements. Larger: calls stop later."""
LEAVE_SECONDS = 0.25
"""Seconds that DuckDB's threads take from a call's end to that of its statement. Larger: Python ends later."""
GROWTH = 1.25
"""Blocks of memory over those after the last collection, from which on `frozen` collects. Larger: more memory."""

_guard = threading.RLock()
_running: set[Call] = set()
_thread = threading.local()
_is_listening = threading.Event()
_messages: list[str] = []  # of calls that were stopped since the last statement of a shell began
_is_answered = threading.Event()  # a signal has stopped calls, and its handler has not run yet
_listeners: list[Listener] = []
_log = logging.getLogger("mwem_sql")

UNKNOWN = "mwem_ledger() tells whether it was charged already; what was stored before is kept"


class _Stop(BaseException):
    """Raised in the thread of a call that is to stop. No `except Exception` holds it up."""


class Call:
    """One call, on one thread. `standing` is what a user reads if it is stopped: what it has done, and how to go on.

    `interrupted`: it was stopped by Ctrl-C; `reported`: and the main thread knows.
    """

    def __init__(self) -> None:
        self.standing = UNKNOWN
        self.stopped = self.interrupted = self.reported = False
        self._shielded = False
        self._thread = threading.get_ident()
        self._connections: list[weakref.ref[Interruptible]] = []

    def track(self, con: Interruptible) -> None:
        self._connections.append(weakref.ref(con))

    def stop(self, *, by_signal: bool) -> None:
        self.stopped, self.interrupted = True, by_signal
        _hide_lost_stops()
        threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        while True:
            with _guard:
                if self not in _running:
                    return
                if not self._shielded:
                    _raise(self._thread, _Stop)
                    for reference in self._connections:
                        con = reference()
                        with suppress(Exception):  # of whatever engine's driver
                            if con is not None:
                                con.interrupt()
            time.sleep(RETRY_SECONDS)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """A block that runs to its end even if the call is being stopped."""
        with _guard:
            self._shielded = True
            self._swallow_stop()
        try:
            yield
        finally:
            self._shielded = False

    def end(self) -> None:
        """Raise nothing in this thread any more. May be called twice."""
        is_over = False
        while not is_over:
            try:
                with _guard:
                    _running.discard(self)
                    _thread.call = None
                    self._swallow_stop()
                    is_over = True
            except _Stop:
                pass

    def _swallow_stop(self) -> None:
        """Swallow a pending asynchronous exception of this thread.

        Python can forget it, but then looks for it forever; under a profiler, without getting any further.
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


def _hide_lost_stops() -> None:
    """Let Python not print "Exception ignored" of a stop that fell into a destructor: it is raised again."""
    before = sys.unraisablehook
    if getattr(before, "hides_stops", False):
        return

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not _Stop:
            before(lost)

    hook.hides_stops = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def run(function: str, work: Callable[[], Result], *, from_python: bool = False) -> Result:
    """Work that can be stopped, on this thread; a CancelledError says that it was, or in Python a KeyboardInterrupt.

    A function and no context manager: what is raised while one is left would be nobody's.
    """
    call = Call()
    try:
        try:
            with _guard:
                _running.add(call)
            _thread.call = call
            return work()
        finally:
            call.end()
    except BaseException:
        call.end()  # it may have been stopped at its end
        if not call.stopped:
            raise
    # Whatever it ended with: an interrupted statement looks like an error of DuckDB's.
    stopped = refuse(CancelledError, function, "the call was stopped", call.standing)
    _messages.append(str(stopped))
    if from_python and call.interrupted:
        raise KeyboardInterrupt(str(stopped))
    raise stopped


def stands(standing: str) -> None:
    """Set what a user reads from here on if the call of this thread, if any, is stopped."""
    call = getattr(_thread, "call", None)
    if call is not None:
        call.standing = standing


def track(con: Tracked) -> Tracked:
    """Interrupt the statements of a connection, of any engine, if the call of this thread, if any, is stopped."""
    call = getattr(_thread, "call", None)
    if call is not None:
        call.track(con)
    return con


@contextmanager
def shielded() -> Iterator[None]:
    """`Call.shielded` of the call of this thread, if any."""
    call = getattr(_thread, "call", None)
    if call is None:
        yield
    else:
        with call.shielded():
            yield


def cancel() -> int:
    """Stop every call of this process, in whatever thread; how many there were. Does not wait for their end.

    A release that was debited stays charged; it is stored as a whole or not at all, and goes on when it is called
    again.
    """
    return _stop_all(by_signal=False)


def finish(seconds: float) -> None:
    """Stop all calls and wait for their end: a thread that returns to Python after Python's end makes it abort."""
    deadline = time.monotonic() + seconds
    if cancel():
        while _running and time.monotonic() < deadline:
            time.sleep(RETRY_SECONDS)
        time.sleep(LEAVE_SECONDS)


def _stop_all(*, by_signal: bool) -> int:
    with _guard:
        chosen = [call for call in _running if not call.stopped]
        for call in chosen:
            call.stop(by_signal=by_signal)
    return len(chosen)


class _WakeUp:
    """A thread that acts on Ctrl-C at once, through Python's wake-up descriptor.

    A signal handler alone comes too late: it waits for the main thread, which waits for DuckDB (on 2.0, up to 50 s in a
    join).
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._wait, args=(act,), daemon=True)
        self._thread.start()
        self.replaced = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def _wait(self, act: Callable[[], object]) -> None:
        while number := self._reader.recv(1):
            if number[0] == signal.SIGINT:
                act()

    def close(self) -> None:
        """Give the descriptor back to whoever had it, and wait for what the thread still does."""
        signal.set_wakeup_fd(self.replaced)
        self._writer.close()
        self._thread.join()
        self._reader.close()


def listen() -> None:
    """Let Ctrl-C stop calls; without calls it does what it did. Nothing changes where others handle the signal.

    A handler that raised KeyboardInterrupt while a call runs would make DuckDB 1.x abandon the call's thread and crash.
    """
    if threading.current_thread() is not threading.main_thread() or _is_listening.is_set():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    wake_up = _WakeUp(_on_wake_up)
    if wake_up.replaced != -1:
        wake_up.close()
        return
    _is_listening.set()
    signal.signal(signal.SIGINT, _on_signal)


@contextmanager
def interruptible(
    con: duckdb.DuckDBPyConnection, on_first: Callable[[], object], on_second: Callable[[], object]
) -> Iterator[None]:
    """Let Ctrl-C interrupt the statement of a connection, and raise KeyboardInterrupt: for a program, not a library.

    The handler does nothing: one that raised while DuckDB works would make 1.x leave a release running on another
    thread, and crash. The first Ctrl-C stops all calls and the statement, then calls `on_first`; later ones call
    `on_second`, which need not wait. The KeyboardInterrupt has the messages of the calls that were stopped.
    """
    _messages.clear()
    is_interrupted = threading.Event()

    def act() -> None:
        if is_interrupted.is_set():
            on_second()
            return
        is_interrupted.set()
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
        if is_interrupted.is_set():
            raise KeyboardInterrupt("\n".join(_messages))


def _on_wake_up() -> None:
    with _guard:
        if _stop_all(by_signal=True):
            _is_answered.set()


def _on_signal(number: int, frame: FrameType | None) -> None:
    with _guard:
        _stop_all(by_signal=True)  # the listener may have been first, and the call may have ended since
        fresh = [call for call in _running if call.interrupted and not call.reported]
        for call in fresh:
            call.reported = True
        is_answered = bool(fresh) or _is_answered.is_set()
        _is_answered.clear()
    if not is_answered:
        signal.default_int_handler(number, frame)


Phase: TypeAlias = Literal["planning", "reading", "rounds", "rows", "done"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a call is: public facts, and no clock. Of rounds how many are done and expected, and the last query."""

    table: str
    phase: Phase
    done: int = 0
    of: int = 0
    query: str = ""


Listener: TypeAlias = Callable[[Progress], object]


def announce(table: str, phase: Phase, *, done: int = 0, of: int = 0, query: str = "") -> None:
    """Tell all listeners, and the log. Errors of a listener are ignored: a release that is charged must go on."""
    progress = Progress(table=table, phase=phase, done=done, of=of, query=query)
    rounds = f" {progress.done} of {progress.of}" if progress.of else ""
    _log.info("%s: %s%s", progress.table, progress.phase, rounds, extra={"mwem": asdict(progress)})
    with _guard:
        listeners = tuple(_listeners)
    for listener in listeners:
        with suppress(Exception):
            listener(progress)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Announce the progress of all calls of this process to a listener while the block runs.

    A call runs on a thread of DuckDB's: listeners belong to the process, not to a thread.
    """
    with _guard:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _guard:
            _listeners.remove(listener)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: it would walk all objects again and again while millions are made."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Collection:
    """How many blocks Python had the last time that nothing could be collected; 0: never."""

    blocks = 0


@contextmanager
def frozen() -> Iterator[None]:
    """The collector ignores all objects that exist by now, and goes on with those that are made from here on.

    Objects that were frozen are in the oldest generation afterwards, and Python never counts them as new there: they
    would be collected when other objects call for it, or never. So memory is counted here, by Python's rule: once there
    is a quarter more, all is collected. Blocks and not objects: to count those takes as long as a small release.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        blocks = sys.getallocatedblocks()
        if blocks > GROWTH * _Collection.blocks and gc.isenabled():
            gc.collect()
            blocks = _Collection.blocks = sys.getallocatedblocks()
        _Collection.blocks = min(_Collection.blocks, blocks)
