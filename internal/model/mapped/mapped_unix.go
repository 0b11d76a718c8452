//go:build unix

package mapped

import (
	"fmt"
	"os"
	"syscall"
)

func load(f *os.File, size int64) ([]byte, func() error, error) {
	if int64(int(size)) != size {
		return nil, nil, fmt.Errorf("%d bytes are more than this machine can address", size)
	}
	bytes, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mmap: %w", err)
	}
	return bytes, func() error { return syscall.Munmap(bytes) }, nil
}
