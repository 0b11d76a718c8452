package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData flushes what was written to a file, and what is needed to read it: not its times, which take a write of their own.
func syncData(f *os.File) error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); {
		case err == nil:
			return failSynced.Hit(f.Name())
		case !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
