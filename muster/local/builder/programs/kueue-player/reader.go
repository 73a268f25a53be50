package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithReader ends this process once nobody can read its standard output any more: whoever started it was killed, and
// the rest of the play would be for nothing. A pipe without a reader reports an error to poll, and without an event to
// wait for, nothing else does. https://man7.org/linux/man-pages/man2/poll.2.html
func endWithReader() {
	watched := []unix.PollFd{{Fd: int32(os.Stdout.Fd())}}
	for {
		found, err := unix.Poll(watched, -1)
		if found > 0 {
			os.Exit(3)
		}
		if err != nil && err != syscall.EINTR {
			return
		}
	}
}
