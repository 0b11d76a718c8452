package record

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// WithAdvice adds to the error of a disk what users can do about it. They need not repair anything
// in the run's directory.
func WithAdvice(err error) error {
	const again = "and start the same command again: it resumes from the last checkpoint"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room %s", err, again)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user write there %s", err, again)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w; the disk is broken or disconnected: repair it, or move the directory to another disk, %s", err, again)
	}
	return err
}
