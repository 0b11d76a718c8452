//go:build unix

package hub

import (
	"errors"
	"os"
	"syscall"
)

func tryLock(path string) (file *os.File, busy bool, err error) {
	file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, false, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, true, nil
	}
	return nil, false, err
}
