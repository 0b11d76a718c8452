package run

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// advised adds what to do about a disk that does not do its part. Nothing has to be repaired in a run's directory.
func advised(err error) error {
	const again = "and start the same command again: it goes on from the last checkpoint"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room %s", err, again)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user write there %s", err, again)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w; the disk is broken or away: mend it, or move the directory to another, %s", err, again)
	}
	return err
}
