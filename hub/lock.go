package hub

import (
	"context"
	"os"
	"time"
)

// acquire takes the lock file at path, waiting while another process has it; a killed process leaves no lock behind.
func acquire(ctx context.Context, path string) (release func(), err error) {
	for {
		file, busy, err := tryLock(path)
		if err == nil && !busy {
			return func() { closeLock(file) }, nil
		}
		if err != nil {
			return nil, err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// closeLock gives the lock up with the file; an error could only mean that it is closed already.
func closeLock(file *os.File) { _ = file.Close() }
