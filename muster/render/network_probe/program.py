"""Tries whether the network enforces a NetworkPolicy. The two pods of one Job run this file.

Pod 0 listens at two ports, and the policy opens one of them. Pod 1 tries both: where the policy is enforced,
the closed port does not answer while the open one does. That the open one answers shows that the other pod
is there. Standard library only: the file is sent to the pods as text.

Exit codes: 0 enforced, 1 not enforced, 3 the open port was never reached.
"""

import selectors
import socket
import sys
import time
from collections.abc import Callable

OPEN_PORT = 8460
CLOSED_PORT = 8461
ENFORCED, NOT_ENFORCED, UNREACHED = 0, 1, 3
FOUND = {
    ENFORCED: "the policy is enforced: the closed port did not answer, the open one did",
    NOT_ENFORCED: "the policy is NOT enforced: a port that it closes answered",
    UNREACHED: "the other pod was never reached, also not at the port that the policy opens",
}
# How long pod 1 waits for pod 0, and how long the network may take until it enforces the policy.
APPEARS_WITHIN = 150.0
ENFORCED_WITHIN = 30.0
_DONE = b"done"


def listen(*, open_port: int = OPEN_PORT, closed_port: int = CLOSED_PORT) -> int:
    """Accept connections at both ports until the other pod has finished."""
    with selectors.DefaultSelector() as ready:
        # The open port last: once it answers, both do.
        for port in (closed_port, open_port):
            ready.register(_server(port), selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                server = key.fileobj
                if isinstance(server, socket.socket) and _is_last(server):
                    return 0


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _is_last(server: socket.socket) -> bool:
    connection, _ = server.accept()
    with connection:
        connection.settimeout(5)
        try:
            return connection.recv(len(_DONE)) == _DONE
        except OSError:
            return False


def reach(host: str, port: int, *, message: bytes = b"") -> bool:
    """Whether the port answers. A network may drop what a policy denies, or refuse it."""
    try:
        with socket.create_connection((host, port), timeout=3) as connection:
            connection.sendall(message)
    except OSError:
        return False
    return True


def probe(
    host: str,
    *,
    reached: Callable[[str, int], bool] = reach,
    now: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Try both ports until the closed one is silent, or time is up."""
    ends = now() + APPEARS_WITHIN
    is_seen = answers = False
    while now() < ends:
        is_there = reached(host, OPEN_PORT)
        if is_there and not is_seen:
            is_seen, ends = True, now() + ENFORCED_WITHIN
        answers = is_there and reached(host, CLOSED_PORT)
        # The open port once more: the pod was there when the closed one did not answer.
        if is_there and not answers and reached(host, OPEN_PORT):
            return ENFORCED
        wait(1.0)
    return NOT_ENFORCED if answers else UNREACHED


def main(arguments: list[str]) -> int:
    """`0` listens; `1 HOST` probes the pod of that name."""
    if arguments[0] == "0":
        return listen()
    host = arguments[1]
    found = probe(host)
    print(FOUND[found], flush=True)
    if found is ENFORCED:
        reach(host, OPEN_PORT, message=_DONE)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
