//go:build unix

package place

import "golang.org/x/sys/unix"

func diskFree(path string) uint64 {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}
