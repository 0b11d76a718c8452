package hub

import (
	"errors"
	"os"
	"syscall"
)

const errorSharingViolation syscall.Errno = 32

// tryLock opens the file for itself alone: sharing mode 0.
func tryLock(path string) (file *os.File, busy bool, err error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(handle), path), false, nil
}
