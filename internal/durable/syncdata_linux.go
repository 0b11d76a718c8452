package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData flushes the content of a file and the metadata needed to read it. It does not flush the
// file's times, which would take another write.
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
